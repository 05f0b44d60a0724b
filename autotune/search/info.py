"""What a run folder says of its search: written when it begins, and read when one goes on or is explained."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.config import Config
from autotune.documents import from_json, from_plain, read_text
from autotune.errors import RunFolderError, UsageError
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.options.base import Context
from autotune.options.space import Space
from autotune.records import RunInfo
from autotune.search.setup import Prepared, Wishes
from autotune.trials.folder import RunFolder

SAME_FACTS = {
    "dataset_length": "dataset length",
    "device_name": "device",
    "model": "model",
    "parameters": "parameters of the model",
    "optimizer": "optimizer",
}
"""facts that a resumed search must find as they were, and what people call them"""


def run_info(prepared: Prepared, wishes: Wishes, command: Sequence[str] = ()) -> RunInfo:
    """Return what the run folder says of a search."""
    space = prepared.space
    return RunInfo(
        source=prepared.source,
        script_hash=prepared.script_hash,
        facts=dataclasses.asdict(prepared.facts),
        machine=prepared.machine.to_dict(),
        choices={name: list(values) for name, values in space.choices.items()},
        reasons=dict(space.reasons),
        baseline=dict(space.baseline),
        max_batch=wishes.max_batch,
        batch_step=wishes.batch_step,
        effective_batch=wishes.effective_batch,
        limits=prepared.limits,
        asked_limits={
            "memory limit": wishes.memory_limit_bytes,
            "host memory limit": wishes.host_memory_limit_bytes,
            "headroom": wishes.headroom,
        },
        sampler=wishes.sampler,
        objective=wishes.objective,
        planned_samples=prepared.planned_samples,
        seed=wishes.seed,
        trials=wishes.trials,
        space_trials=space.context.trials,
        timeout_s=wishes.timeout_s,
        started_at=time.time(),
        study=study_name(prepared),
        command=tuple(command),
    )


def study_name(prepared: Prepared) -> str:
    """Return the name of a search's study: one for each workload, machine and space."""
    source = prepared.source
    workload = [source.workload, list(source.arguments), dict(source.functions), source.pickle, source.unmodified]
    machine = [platform.node(), prepared.facts.device, prepared.machine.identity()]
    space = [prepared.space.digest(), dict(prepared.space.baseline)]
    script = Path(source.script)
    text = json.dumps([str(script.resolve()), workload, machine, space], sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{script.name or 'workload'} on {prepared.facts.device_name} ({mark})"


def space_of(info: RunInfo) -> Space:
    """Return the space of an earlier search, as its run folder describes it.

    Raises:
        ValueError: the description is damaged.
        ConfigError: an unknown option, or a value that it cannot have.
    """
    for name, values in info.choices.items():
        if not isinstance(values, list):
            raise ValueError(f"the choices of {name} are no list")
        for value in values:
            Config(**{name: value})
    context = Context(
        facts=from_plain(Facts, info.facts),
        machine=from_plain(Machine, info.machine),
        baseline=dict(info.baseline),
        max_batch=info.max_batch,
        batch_step=info.batch_step,
        effective_batch=info.effective_batch,
        host_bytes=info.limits.host_bytes,
    )
    choices = {name: tuple(values) for name, values in info.choices.items()}
    return Space(context, choices, dict(info.reasons), Config(**info.baseline))


def read_info(folder: RunFolder) -> RunInfo:
    """Return what a folder says of the search in it.

    Raises:
        RunFolderError: it is damaged.
    """
    try:
        return from_json(RunInfo, read_text(folder.run))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{folder.run} is damaged: {error}", hint="Start anew with --force.") from None


def check_same(earlier: RunInfo, now: RunInfo) -> None:
    """Raise UsageError where figures of the earlier search would not be comparable."""
    then_versions, now_versions = earlier.machine.get("versions", {}), now.machine.get("versions", {})
    pairs: dict[str, tuple[Any, Any]] = {
        "script": (earlier.script_hash[:12], now.script_hash[:12]),
        "script arguments": (earlier.source.arguments, now.source.arguments),
        "workload": (earlier.source.workload, now.source.workload),
        "functions": (dict(earlier.source.functions), dict(now.source.functions)),
    }
    for field, name in SAME_FACTS.items():
        pairs[name] = (earlier.facts.get(field), now.facts.get(field))
    pairs |= {
        "torch": (then_versions.get("torch"), now_versions.get("torch")),
        "cores": (earlier.machine.get("usable_cores"), now.machine.get("usable_cores")),
        "objective": (earlier.objective, now.objective),
        "baseline": (dict(earlier.baseline), dict(now.baseline)),
        "samples per optimizer step": (earlier.effective_batch, now.effective_batch),
        "planned samples": (earlier.planned_samples, now.planned_samples),
    }
    for name in sorted({*earlier.asked_limits, *now.asked_limits}):
        pairs[name] = (earlier.asked_limits.get(name), now.asked_limits.get(name))
    for name in sorted({*earlier.choices, *now.choices}):
        pairs[f"choices of {name}"] = (earlier.choices.get(name, []), now.choices.get(name, []))
    differing = [
        f"{name}: {_worded(then)} then, {_worded(here)} now" for name, (then, here) in pairs.items() if then != here
    ]
    if differing:
        raise UsageError(
            "the search cannot be resumed, since it was of something else:\n  " + "\n  ".join(differing),
            hint="Start anew with --force, or keep both with --out OTHER_FOLDER.",
        )


def _worded(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in ("", None) else str(value)
