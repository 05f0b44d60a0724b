"""A run folder read whole: what was searched, and the records of its trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autotune.config import Config
from autotune.documents import from_json, from_plain, read_text
from autotune.errors import ConfigError, RunFolderError
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.records import NOT_SCREENING, RunInfo, TrialRecord
from autotune.trials.folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Run:
    """A search as it stands on disk."""

    folder: RunFolder
    info: RunInfo
    records: tuple[TrialRecord, ...]
    """of all trials by number, verification windows among them"""

    @property
    def baseline(self) -> Config:
        return Config(**self.info.baseline)

    @property
    def accelerator(self) -> bool:
        """Whether the workload ran on an accelerator, whose memory then decides what fits."""
        return str(self.info.facts.get("device", "cpu")) != "cpu"

    @property
    def screening(self) -> list[TrialRecord]:
        """The records of the search itself."""
        return [record for record in self.records if record.kind not in NOT_SCREENING]

    def record(self, number: int) -> TrialRecord:
        """Return the record of one trial.

        Raises:
            RunFolderError: there is none of that number.
        """
        found = next((record for record in self.records if record.number == number), None)
        if found is None:
            numbers = [record.number for record in self.records]
            hint = f"Its trials: {min(numbers)} to {max(numbers)}." if numbers else "It has no trials yet."
            raise RunFolderError(f"{self.folder.path} has no trial {number}", hint=hint)
        return found


def read_run(folder: RunFolder) -> Run:
    """Read a run folder.

    Raises:
        RunFolderError: no search was begun there, or a file of it is damaged.
    """
    if not folder.run.exists():
        raise RunFolderError(
            f"no search in {folder.path}", hint="`autotune search SCRIPT --out FOLDER` makes a run folder."
        )
    try:
        info = from_json(RunInfo, read_text(folder.run))
        # told apart here, once, so that whoever shows them can rely on their types
        from_plain(Facts, info.facts)
        from_plain(Machine, info.machine)
        Config(**info.baseline)
        began(info)
    except (ValueError, OverflowError, OSError, ConfigError) as error:
        raise RunFolderError(f"damaged {folder.run}: {error}") from None
    return Run(folder=folder, info=info, records=tuple(folder.records()))


def began(info: RunInfo) -> str:
    """Return when a search began: UTC, to the minute."""
    return f"{datetime.fromtimestamp(info.started_at, UTC):%Y-%m-%d %H:%M}"


def machine_line(info: RunInfo) -> str:
    """Return where and when a search ran: device, driver, cores, torch, date."""
    machine: Mapping[str, Any] = info.machine
    device = str(info.facts.get("device_name") or machine.get("cpu") or "unknown device")
    drivers = {str(gpu.get("driver", "")) for gpu in machine.get("gpus") or () if gpu.get("name") == device}
    parts = [device + "".join(f" (driver {driver})" for driver in sorted(drivers) if driver)]
    if "usable_cores" in machine:
        parts.append(f"{machine['usable_cores']:g} usable cores")
    versions = machine.get("versions") or {}
    if "torch" in versions:
        parts.append(f"torch {versions['torch']}")
    parts.append(f"{began(info)} UTC")
    return ", ".join(parts)
