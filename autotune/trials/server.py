"""The fork server: imports torch and the trial's code once, touches no device, and forks one process a trial.

Started by the runner with the arguments FD FOLDER CACHE. It speaks JSON lines over the socket FD: a request
{"spec": ..., "log": path, "scratch": path or empty, "kept": paths} with the write end of a progress pipe, answered by
{"pid": n} and later {"pid": n, "status": wait status}. When the socket closes, all trials are killed and it ends.
FOLDER is for the sockets of the trials' loader workers; it goes with the compile cache CACHE when the server ends: what
is killed cannot take its own away.

multiprocessing's own fork server runs the parent's main module again in every child, and gives neither a session
(process group) nor a log to the child before its first import; hence this one.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import multiprocessing
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from autotune.trials.groups import GONE_S, GONE_TICK_S, remove_shared_memory, semaphore_prefix
from autotune.trials.sandbox import Sandbox, enter, way_here

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
OOM_SCORE = "800"  # the kernel shall take the trial before anything else on the machine
MESSAGE_BYTES = 1 << 20
MAX_FILES = 1 << 20  # programs exist that close every descriptor up to the limit, one by one


def serve(connection: socket.socket, temporary: Path) -> None:
    """Fork trials as asked until the steering process goes away."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the steering process's to answer
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    selector.register(wake_read, selectors.EVENT_READ)
    trials: set[int] = set()
    buffer = b""
    descriptors: list[int] = []
    way = ""  # of the sandbox; found out once
    _send(connection, {"ready": os.getpid()})
    while True:
        for key, _ in selector.select():
            if key.fileobj is not connection:
                os.read(wake_read, 512)
                continue
            data, received, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 4)
            descriptors += received
            if not data:
                _end_all()
                return
            buffer += data
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            request = json.loads(line)
            progress = descriptors.pop(0)
            sandbox = None
            if request["scratch"]:
                kept = (temporary, *map(Path, request["kept"]))
                sandbox = Sandbox(scratch=Path(request["scratch"]), kept=kept)
                way = way or way_here(sandbox)
            pid = os.fork()
            if pid == 0:
                selector.close()
                connection.close()
                os.close(wake_read)
                signal.set_wakeup_fd(-1)
                os.close(wake_write)
                _become_trial(request["spec"], request["log"], progress, sandbox, way, temporary)
            os.close(progress)
            trials.add(pid)
            _send(connection, {"pid": pid})
        ended = dict(_ended())
        remove_shared_memory(ended)
        for pid, status in ended.items():
            if pid in trials:
                trials.discard(pid)
                _send(connection, {"pid": pid, "status": status})
                _end_strays(trials)


def _become_trial(spec: str, log: str, progress: int, sandbox: Sandbox | None, way: str, temporary: Path) -> None:
    """Turn the forked process into a trial: own session, log, no standard input, ends with the server."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        # append: the steering process may shorten the file while it is written
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(nothing, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(nothing)
        os.close(out)
        faulthandler.enable()
        multiprocessing.current_process()._config["semprefix"] = semaphore_prefix(os.getpid())  # type: ignore[attr-defined]
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
            score.write(OOM_SCORE)
        if sandbox is not None:
            enter(sandbox, way, temporary / "temporary")
        from autotune.trials.child import run_trial

        run_trial(spec, progress)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _ended() -> Iterator[tuple[int, int]]:
    """Yield (pid, wait status) of all children that ended, orphans of trials included."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, status


def _end_all() -> None:
    """Kill the trials with all that they have started, and take away what is left of them."""
    this, gone, deadline = psutil.Process(), set[int](), time.monotonic() + GONE_S
    while (children := this.children(recursive=True)) and time.monotonic() < deadline:
        for child in children:
            gone.add(child.pid)
            with suppress(psutil.Error):
                child.kill()
        gone.update(dict(_ended()))
        time.sleep(GONE_TICK_S)
    remove_shared_memory(gone)


def _end_strays(trials: set[int]) -> None:
    """Kill what left its trial's session: this process adopts whatever its trials leave behind."""
    with suppress(psutil.Error):
        for process in psutil.Process().children():
            if process.pid not in trials:
                with suppress(psutil.Error):
                    for stray in (process, *process.children(recursive=True)):
                        stray.kill()


def _send(connection: socket.socket, message: dict[str, int]) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def _raise_file_limit() -> None:
    """Let trials open as many files as they may: loader workers pass each tensor as a descriptor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main() -> None:
    """Import what every trial needs, then serve."""
    # orphaned loader workers come to this process, which reaps them: init may not
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    connection, folders = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    # where multiprocessing keeps sockets; TMPDIR would move what scripts keep there, too
    multiprocessing.current_process()._config["tempdir"] = folders[0]  # type: ignore[attr-defined]
    _raise_file_limit()
    # imported here once, for all trials; an optimizer's first step would import torch._dynamo, which takes a second
    import scipy.special  # noqa: F401
    import torch._dynamo  # noqa: F401

    import autotune.trials.child  # noqa: F401

    serve(connection, Path(folders[0]))
    for folder in folders:  # the steering process may have been killed, and does it otherwise
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # taking torch down in good order takes seconds, and nothing is left to save


if __name__ == "__main__":
    main()
