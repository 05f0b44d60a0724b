"""Finding the one workload in a script's module."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from autotune.errors import ScriptError, UsageError, WorkloadError
from autotune.records import Source
from autotune.workload import ROLES, Workload, article
from autotune.workload.script import brief, import_script, user_traceback

CONVENTIONAL_NAMES = {
    "model": "build_model",
    "dataset": "build_dataset",
    "optimizer": "build_optimizer",
    "loader": "build_loader",
    "sampler": "build_sampler",
}
"""roles whose function is not simply called like the role itself"""

EXAMPLE = """\
Give the script one of these:
  workload = autotune.Workload(model=..., dataset=..., loss=..., optimizer=..., baseline={"batch_size": 64})
or functions build_model() and build_dataset(), and optionally build_optimizer(parameters), loss(output, target),
training_step(model, batch), collate_fn(samples);
or name your own: --model make_net --dataset load_data"""

IMPORTS = "It imports autotune, so it is taken to have one; without that import it is run as it is."


def load_workload(source: Source) -> Workload:
    """Return the workload that `source` names. Runs the user's module code.

    Raises:
        ScriptError: the user's code failed.
        WorkloadError: no workload or more than one.
        UsageError: parts of a workload are named, and the script has a whole one.
    """
    if source.pickle:
        return _unpickle(Path(source.pickle))
    module = import_script(Path(source.script), source.arguments)
    return find_workload(module, source.workload, source.functions)


def find_workload(module: ModuleType, name: str = "", functions: Mapping[str, str] | None = None) -> Workload:
    """Return the one Workload in `module`, or the one that its functions make."""
    script = Path(module.__file__ or module.__name__).name
    found = {key: value for key, value in vars(module).items() if isinstance(value, Workload)}
    unique = {id(value): key for key, value in found.items()}
    if found and functions:
        flags = ", ".join(map(_flag, functions))
        raise UsageError(
            f"{script} has a workload ({name if name in found else ', '.join(unique.values())}), "
            f"and {flags} {'is' if len(functions) == 1 else 'are'} for scripts without one",
            hint=f"Leave {flags} out, or change the workload in the script.",
        )
    if name:
        if name not in found:
            known = ", ".join(found) or "none"
            raise WorkloadError(f"{script} has no workload called {name}; workloads found: {known}")
        return found[name]
    if functions:
        return _from_functions(module, dict(functions), script)
    if len(unique) > 1:
        raise WorkloadError(
            f"{script} has {len(unique)} workloads: {', '.join(unique.values())}",
            hint=f"Name the one to tune: --workload {next(iter(unique.values()))}",
        )
    if unique:
        return next(iter(found.values()))
    return _from_functions(module, {}, script)


def _from_functions(module: ModuleType, named: dict[str, str], script: str) -> Workload:
    parts: dict[str, Any] = {}
    for role in ROLES:
        name = named.get(role) or CONVENTIONAL_NAMES.get(role, role)
        value = getattr(module, name, None)
        if value is None and role in named:
            raise WorkloadError(f"{script} has no {name}, which {_flag(role)} names")
        if callable(value):
            parts[role] = value
        elif role in named:
            raise WorkloadError(
                f"{name} in {script} is {article(value)}, not a function",
                hint=f"{_flag(role)} names a function of the script; to leave it to its default, leave the flag out.",
            )
    if {"loss", "training_step"} <= set(parts) and len({"loss", "training_step"} & set(named)) < 2:
        # by convention a training step comes first: it may well call the script's loss()
        parts.pop("training_step" if "loss" in named else "loss")
    if "model" not in parts or not {"dataset", "loader"} & set(parts):
        hint = f"{IMPORTS}\n{EXAMPLE}" if _imports_autotune(module) else EXAMPLE
        raise WorkloadError(f"{script} has no workload; found {_candidates(module)}", hint=hint)
    return Workload(**parts)


def _imports_autotune(module: ModuleType) -> bool:
    places = (getattr(value, "__module__", None) or getattr(value, "__name__", "") for value in vars(module).values())
    return any(str(place).split(".")[0] == "autotune" for place in places)


def _flag(role: str) -> str:
    """Return the command line's flag that names a role's function."""
    return f"--{role.replace('_', '-')}"


def _candidates(module: ModuleType) -> str:
    own = [
        f"{name}()"
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    ]
    return ", ".join(own[:20]) or "no functions or classes"


def _unpickle(path: Path) -> Workload:
    # written by this user's own process a moment ago: see trials/, which makes it
    try:
        workload = pickle.loads(path.read_bytes())
    except Exception as error:
        raise ScriptError(
            f"the workload cannot be rebuilt in the trial process: {brief(error)}",
            traceback=user_traceback(error),
        ) from error
    assert isinstance(workload, Workload)
    return workload
