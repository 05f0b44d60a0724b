"""The flags that name a workload, written once and taken by every command that builds one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.cli import flags


@dataclass(frozen=True)
class Named:
    """What the command line says of where the workload is in the script."""

    workload: str = ""
    functions: Mapping[str, str] = field(default_factory=dict)
    """names of factory functions by role; empty ones were not given"""


def _flags(
    workload: flags.WorkloadName = "",
    model: flags.ModelName = "",
    dataset: flags.DatasetName = "",
    optimizer: flags.OptimizerName = "",
    loss: flags.LossName = "",
    training_step: flags.StepName = "",
    collate_fn: flags.CollateName = "",
    loader: flags.LoaderName = "",
) -> None:
    """The parameters, for Typer to read."""


def names_workload(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these flags in the place of its keyword-only parameter `named`, which it gets them as."""
    shared = inspect.signature(_flags, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def called(*args: Any, **values: Any) -> None:
        functions = {name: values.pop(name) for name in shared if name in values}
        command(*args, named=Named(functions.pop("workload", ""), functions), **values)

    kept = [item for name, item in own.parameters.items() if name != "named"]
    added = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in shared.values()]
    first = next((place for place, item in enumerate(kept) if item.kind is item.KEYWORD_ONLY), len(kept))
    parameters = [*kept[:first], *added, *kept[first:]]
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {item.name: item.annotation for item in parameters}
    return called
