"""A search uses no shell and no network, and writes to its run folder alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.steering import Steered

HOOK = """
import json, os, sys
LOG = os.environ.get("AUDIT_LOG")
WATCHED = {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "os.system", "os.exec",
           "os.posix_spawn", "subprocess.Popen", "urllib.Request", "ftplib.connect", "smtplib.connect", "pty.spawn"}

def hook(event, arguments):
    if event in WATCHED:
        line = json.dumps([event, [repr(argument) for argument in arguments]]) + "\\n"
        descriptor = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, line.encode())
        os.close(descriptor)

if LOG:
    sys.addaudithook(hook)
"""
SHELLS = ("/sh'", "/bash'", "/dash'", "'sh'", "'bash'")


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """A search whose every Python process, loader workers too, notes what it does to the world."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    path = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'hook'}:{path}")
    monkeypatch.setenv("AUDIT_LOG", str(tmp_path / "audit"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return Steered(tmp_path, "--trials", 3)


@pytest.mark.timeout(400)
def test_no_shell_no_network_no_file_outside_the_run_folder(audited, tmp_path):
    before = files(tmp_path)
    audited.finish()
    audited.check_nothing_is_left()
    events: list[tuple[str, list[Any]]] = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    started = [arguments for event, arguments in events if event == "subprocess.Popen"]
    assert started  # the fork server, at least: the hook works
    for event, arguments in events:
        told = (event, arguments)
        assert event not in ("os.system", "socket.getaddrinfo", "urllib.Request", "ftplib.connect", "pty.spawn"), told
        assert not any(shell in argument for argument in arguments[:2] for shell in SHELLS), told
        if event.startswith("socket."):
            # loader workers pass tensors over local sockets, which have a path and no host
            assert not arguments[1].startswith("("), told
    new = {name for name in files(tmp_path) - before if not name.startswith(("run/", "tmp/torchinductor"))}
    assert new <= {"audit", "locks/cpu.lock"}
