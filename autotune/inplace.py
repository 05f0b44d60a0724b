"""Activations that overwrite their input: which modules of a model have the switch, and turning it."""

from __future__ import annotations

from collections.abc import Collection

from torch import nn

from autotune.errors import WorkloadError

OFF, ALL, ALL_BUT = "off", "all", "all but "


def switchable(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Return the modules with an `inplace` switch that is off, by path and class.

    Numbers in a path become *, so that the same part of repeated blocks is one: "blocks.*.act:ReLU".
    """
    found: dict[str, list[nn.Module]] = {}
    for path, module in model.named_modules():
        if getattr(module, "inplace", None) is False:
            found.setdefault(f"{_pattern(path)}:{type(module).__name__}", []).append(module)
    return found


def value_without(left: Collection[str]) -> str:
    """Return the option's value that leaves these paths alone."""
    return f"{ALL_BUT}{' '.join(left)}" if left else ALL


def switch_on(model: nn.Module, value: str) -> nn.Module:
    """Let the modules that the option's value names overwrite their input; changes the model.

    Raises:
        WorkloadError: a module to be left alone is not there, as in a wrapper around the model that was measured. It
            may be there under another name, and in place it would change the gradients without a word.
    """
    left = value.removeprefix(ALL_BUT).split() if value.startswith(ALL_BUT) else []
    found = switchable(model)
    missing = [name for name in left if name not in found]
    if missing:
        raise WorkloadError(
            f"inplace_activations leaves {', '.join(missing)} alone, and the model has no such module",
            hint="Hand over the model that was measured, before anything is wrapped around it, or search again.",
        )
    for path, modules in found.items():
        if value != OFF and path not in left:
            set_inplace(modules, True)
    return model


def set_inplace(modules: Collection[nn.Module], on: bool) -> None:
    for module in modules:
        module.inplace = on  # type: ignore[assignment]


def _pattern(path: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in path.split(".")) or "model"
