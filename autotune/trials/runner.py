"""Running trials: the interface, and the runner that gives each trial a process of its own."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from autotune.documents import to_json
from autotune.errors import AutotuneError
from autotune.records import Failure, Outcome, TrialRecord, TrialSpec
from autotune.trials.ending import Ending, conclude, tail
from autotune.trials.folder import SCRATCH, write_atomically
from autotune.trials.groups import end_group, remove_shared_memory, wait_until_gone
from autotune.trials.sandbox import remove
from autotune.trials.watchdog import Watchdog

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
TICK_S = 0.05
SERVER_ENDS_S = 3.0  # once nobody asks anything of it
START_S = 120.0  # for the fork server to import torch, on a slow disk
# not by -m, which looks for modules in the working folder first: a script called random.py there would be run
SERVER = f"""
import sys
if {str(PACKAGE_ROOT)!r} not in sys.path:
    sys.path.append({str(PACKAGE_ROOT)!r})
from autotune.trials.server import main
main()
"""
MAX_SOCKET_NAME = 107  # bytes; unix(7): sun_path has 108, one of them for the end
MAX_MESSAGE_BYTES = 1 << 16  # of progress; what is longer is none

IN_TRIAL = "AUTOTUNE_TRIAL"
"""environment variable that is set in the trials' processes"""

Report = Callable[[Mapping[str, Any]], None]
"""called with what a trial says of its progress: {"phase": ..., figures}"""


def silent(message: Mapping[str, Any]) -> None:
    """Report nothing."""


class Runner(Protocol):
    """Anything that turns a spec into a record."""

    def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
        """Run one trial to its end; its failure is in the record, never an exception."""

    def close(self) -> None:
        """Let go of processes and files."""


class ServerDied(AutotuneError):
    """The fork server ended by itself."""


class ForkServerRunner:
    """Runs each trial in a process group forked from a server that has imported torch."""

    def __init__(self, server_log: Path, *, sandbox: bool = False) -> None:
        """`sandbox`: what a trial writes goes to a scratch folder beside its record, and goes with the trial."""
        self._server_log, self._sandbox = server_log, sandbox
        self._server: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._scratch: str | None = None
        self._buffer = b""
        self._compile_cache = ""
        """folder of torch.compile's cache for this runner's trials: a verification need not compile again, and the
        user's own cache neither helps nor grows. Made with the first server, which removes it if we are killed"""

    def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
        started_at, began = time.time(), time.perf_counter()
        Path(spec.record_path).unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        connection = self._ready()
        progress, theirs = os.pipe()
        try:
            request = json.dumps(self._request(spec, log)).encode() + b"\n"
            try:
                socket.send_fds(connection, [request[:1]], [theirs])
                connection.sendall(request[1:])
            finally:
                os.close(theirs)
            watched = self._watch(connection, spec, log, progress, report)
        except (ServerDied, BrokenPipeError, ConnectionResetError):
            self._forget_server()
            watched = Ending(None, Failure(reason="the fork server ended", message=tail(self._server_log)), {})
        finally:
            os.close(progress)
            remove(scratch_of(spec))
        record = conclude(spec, watched, log)
        record = replace(record, started_at=started_at, wall_s=time.perf_counter() - began)
        write_atomically(Path(spec.record_path), to_json(record))
        return record

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()  # the server kills what it runs and ends
        if self._server is not None:
            try:
                self._server.wait(SERVER_ENDS_S)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._forget_server()
        shutil.rmtree(self._compile_cache, ignore_errors=True)

    def _request(self, spec: TrialSpec, log: Path) -> dict[str, Any]:
        scratch = scratch_of(spec) if self._sandbox else None
        if scratch is not None:
            remove(scratch)  # of a search that was killed
            (scratch / "try").mkdir(parents=True)
        return {
            "spec": to_json(spec),
            "log": str(log.resolve()),
            "scratch": str(scratch or ""),
            "kept": [str(Path(spec.record_path).resolve().parent), self._compile_cache],
        }

    def _ready(self) -> socket.socket:
        """Return the connection to a server that is up, starting one where there is none.

        Raises:
            AutotuneError: the server does not come up; shows what it printed.
        """
        if self._connection is not None and self._server is not None and self._server.poll() is None:
            return self._connection
        self._forget_server()
        ours, theirs = socket.socketpair()
        self._scratch = tempfile.mkdtemp(prefix="autotune-", dir=_folder_of_sockets())
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", IN_TRIAL: "1"}
        self._compile_cache = self._compile_cache or tempfile.mkdtemp(prefix="autotune-compiled-")
        environment["TORCHINDUCTOR_CACHE_DIR"] = self._compile_cache  # Triton's lies in it
        environment.pop("TRITON_CACHE_DIR", None)
        with self._server_log.open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-c", SERVER, str(theirs.fileno()), self._scratch, self._compile_cache],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,  # Ctrl-C in the terminal reaches the steering process alone
            )
        theirs.close()
        ours.settimeout(START_S)
        self._connection = ours
        try:
            self._message()
        except (ServerDied, TimeoutError, ConnectionResetError):
            self._forget_server()
            raise AutotuneError("the process that starts trials did not come up", hint=tail(self._server_log)) from None
        return ours

    def _forget_server(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._server is not None and self._server.poll() is None:
            self._server.kill()
            self._server.wait()
        if self._scratch is not None:  # the server does it too: either may be killed
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._server, self._connection, self._scratch, self._buffer = None, None, None, b""

    def _message(self) -> dict[str, int]:
        """Wait for the server's next message."""
        assert self._connection is not None
        while b"\n" not in self._buffer:
            data = self._connection.recv(1 << 16)
            if not data:
                raise ServerDied("the fork server ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, int] = json.loads(line)
        return message

    def _begun(self) -> int:
        """Wait for the trial's process to begin and return its number; where Ctrl-C comes first, end it."""
        try:
            return self._message()["pid"]
        except KeyboardInterrupt:
            self._end(self._message()["pid"])
            raise

    def _end(self, pid: int) -> None:
        """End a trial and wait for it: no process may outlive the search."""
        end_group(pid, gently=False)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it may not have its group yet
        while self._status(pid) is None:
            pass
        wait_until_gone(pid)

    def _status(self, pid: int) -> int | None:
        """Wait for the next message; return the wait status where it is of the process `pid` and has one."""
        message = self._message()
        return message.get("status") if message.get("pid") == pid else None

    def _watch(self, connection: socket.socket, spec: TrialSpec, log: Path, progress: int, report: Report) -> Ending:
        """Follow a trial until the last process of its group is gone."""
        pid = self._begun()
        try:
            watchdog = Watchdog(pid, spec.limits, log, spec.device)
        except BaseException:
            self._end(pid)
            raise

        def told(message: Mapping[str, Any]) -> None:
            watchdog.told(str(message["phase"]))
            report(message)

        selector = selectors.DefaultSelector()
        selector.register(connection, selectors.EVENT_READ)
        selector.register(progress, selectors.EVENT_READ)
        os.set_blocking(progress, False)
        pending, status, ending = b"", None, None
        try:
            while status is None:
                if b"\n" in self._buffer:  # what came in one piece with another message
                    status = self._status(pid)
                    continue
                for key, _ in selector.select(TICK_S):
                    if key.fileobj is connection:
                        status = self._status(pid)
                    else:
                        pending = _read_progress(selector, progress, pending, told)
                if ending is None and status is None:
                    ending = watchdog.verdict()
                    if ending is not None:
                        end_group(pid, gently=ending[0] is Outcome.TIMEOUT)
        except ServerDied:
            end_group(pid, gently=False)
            raise
        except BaseException:  # Ctrl-C above all
            if status is None:
                self._end(pid)
            raise
        finally:
            selector.close()
            wait_until_gone(pid)
            remove_shared_memory({pid, *watchdog.family})
            watchdog.close()
        if ending is not None:
            return Ending(ending[0], ending[1], watchdog.seen())
        return Ending(status, None, watchdog.seen())


def _folder_of_sockets() -> str:
    """Return the temporary folder, or /tmp where a socket's name in it would be too long: workers' batches get lost."""
    folder = tempfile.gettempdir()
    too_long = len(os.fsencode(folder)) + len("/autotune-xxxxxxxx/listener-xxxxxxxx") > MAX_SOCKET_NAME
    return "/tmp" if too_long and os.access("/tmp", os.W_OK) else folder


def scratch_of(spec: TrialSpec) -> Path:
    """Return the folder that takes what a trial writes."""
    return Path(spec.record_path).resolve().with_suffix(SCRATCH)


def _read_progress(selector: selectors.BaseSelector, progress: int, pending: bytes, report: Report) -> bytes:
    """Pass on the complete messages of a trial; return the incomplete rest."""
    try:
        data = os.read(progress, 1 << 16)
    except BlockingIOError:
        return pending
    if not data:
        selector.unregister(progress)
        return b""
    *lines, rest = (pending + data).split(b"\n")
    for line in lines:
        message: Any = None
        with suppress(ValueError, RecursionError):  # a trial may write what it likes into its own pipe
            message = json.loads(line)
        if isinstance(message, dict) and "phase" in message:
            report(message)
    return rest if len(rest) < MAX_MESSAGE_BYTES else b""
