"""What a person types to apply an emitted config as it was measured, or to have it proven."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from autotune.config import Config
from autotune.facts import Facts
from autotune.machine import Machine, unasked
from autotune.records import Source


def apply_line(path: Path, source: Source, beside: str = "") -> str:
    """Return what applies an emitted config: a line of Python, or the command that runs an unmodified script.

    Args:
        beside: the other arguments of `Tuned`.
    """
    if source.unmodified:
        return source.run_command(str(path))
    return f"tuned = autotune.Tuned(autotune.Config.load({json.dumps(str(path), ensure_ascii=False)}){beside})"


def tuned_arguments(config: Config, facts: Facts, machine: Machine) -> str:
    """Return what `Tuned` must be given beside the config to do what was measured: ", device=..."; empty: nothing."""
    found = ""
    if not unasked(facts.device, cards=bool(machine.gpus)):
        found += f", device={json.dumps(facts.device)}"
    if facts.checkpoint_blocks is not None and config.value("checkpoint_segments"):
        found += f", checkpoint_blocks={json.dumps(facts.checkpoint_blocks)}"
    return found


def verify_line(folder: Path, source: Source, other: Path | None = None) -> str:
    """Return what measures a search's best config against the baseline: a command, or the same search from Python.

    Args:
        other: the file of another config that the search emitted, to be measured in the best one's place.
    """
    if source.script:
        return f"autotune verify {shlex.quote(str(other or folder))}"
    return f'autotune.tune(workload, ..., out={json.dumps(str(folder))}, verify="full", resume=True)'
