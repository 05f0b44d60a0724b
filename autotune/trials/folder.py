"""The run folder: the one place that knows the name of every file of a search."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from autotune.config import Config
from autotune.documents import read_record, to_json
from autotune.errors import ConfigError, RunFolderError
from autotune.records import TrialRecord
from autotune.trials.sandbox import remove

GONE = "The folder was removed or renamed while it was in use: what was measured lies where it is now."
DRAFT = ".tmp"
"""end of the names of files that are being written"""
OF_TRIALS = ("[0-9][0-9][0-9][0-9]*.json", "[0-9][0-9][0-9][0-9]*.log", "probe.json", "probe.log")
SCRATCH = ".scratch"
"""end of the names of folders that take what a trial writes"""


class RunFolder:
    """Everything that a search writes, in one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def study(self) -> Path:
        """Optuna's SQLite file."""
        return self.path / "study.db"

    @property
    def run(self) -> Path:
        """What was searched: script, facts, machine, space, limits."""
        return self.path / "run.json"

    @property
    def best(self) -> Path:
        return self.path / "best.toml"

    @property
    def best_same_batch(self) -> Path:
        return self.path / "best-same-batch.toml"

    @property
    def verification(self) -> Path:
        return self.path / "verification.json"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.path / "report.html"

    @property
    def trials(self) -> Path:
        return self.path / "trials"

    @property
    def server_log(self) -> Path:
        return self.path / "server.log"

    def record(self, number: int) -> Path:
        return self.trials / f"{number:04d}.json"

    def log(self, number: int) -> Path:
        """All that the trial's processes printed."""
        return self.trials / f"{number:04d}.log"

    @property
    def probe_record(self) -> Path:
        return self.trials / "probe.json"

    @property
    def probe_log(self) -> Path:
        return self.trials / "probe.log"

    @property
    def exists(self) -> bool:
        """Whether a search was begun here."""
        return self.study.exists() or self.run.exists()

    def create(self) -> None:
        """Make the folder.

        Raises:
            RunFolderError: it cannot be written to.
        """
        try:
            self.trials.mkdir(parents=True, exist_ok=True)
            probe = self.trials / ".writable"
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise RunFolderError(
                f"cannot write to the run folder {self.path}: {error.strerror}",
                hint="Name another with --out FOLDER.",
            ) from None

    def clear(self) -> None:
        """Remove an earlier search: only the files that a search writes."""
        for path in (self.study, self.run, self.best, self.best_same_batch, self.verification, self.report):
            path.unlink(missing_ok=True)
        for suffix in ("-wal", "-shm", "-journal"):
            self.study.with_name(self.study.name + suffix).unlink(missing_ok=True)
        self.server_log.unlink(missing_ok=True)
        for pattern in OF_TRIALS:
            for path in self.trials.glob(pattern):
                path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a process that was killed left half written; only for the one search that writes here."""
        for parent in (self.path, self.trials):
            for path in parent.glob(f".*{DRAFT}"):
                path.unlink(missing_ok=True)
        for path in self.trials.glob(f"*{SCRATCH}"):
            remove(path)

    def records(self) -> Iterator[TrialRecord]:
        """Yield the records of all trials by number; one that is damaged is an error that names it.

        Raises:
            RunFolderError: a record cannot be read.
        """
        for path in sorted(self.trials.glob("[0-9]*.json")):
            try:
                record = read_record(path)
                Config(**record.config)  # told apart here, once: another version may know other options and values
            except ValueError as error:
                raise RunFolderError(f"damaged record: {error}") from None
            except ConfigError as error:
                raise RunFolderError(f"damaged record: {path}: {error.message}", hint=error.hint) from None
            yield record

    def write_record(self, record: TrialRecord) -> None:
        path = self.probe_record if record.kind == "probe" else self.record(record.number)
        write_atomically(path, to_json(record))


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new, never half of it.

    Raises:
        RunFolderError: no space, no permission, a folder in its place.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}{DRAFT}"
    try:
        if os.path.isdir(path):  # asked before: "." and "/" have no name to put a draft beside
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary.write_text(text, encoding="utf-8", errors="replace")  # texts of users hold half characters
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a place that no file can be in has none to remove
            temporary.unlink()
        hint = GONE if isinstance(error, FileNotFoundError) else ""
        raise RunFolderError(f"cannot write {path}: {error.strerror}", hint=hint) from None
