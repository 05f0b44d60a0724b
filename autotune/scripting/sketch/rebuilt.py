"""The model that the written file builds beside the one that the script trains: what differs, and what mends it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from autotune.scripting.sketch.expressions import Unseen, Writer
from autotune.workload.script import brief

MOST_LINES = 16
"""that change a model after its construction; a model that needs more is left to a person"""
NAMED = 3  # of the parts that differ in one way
PLAIN = (bool, int, float, str, type(None))


T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A module by itself."""

    kind: type
    compiled: bool
    settings: Mapping[str, Any]
    """its plain attributes: rates, sizes, switches, whether it is in training mode"""


@dataclass(frozen=True)
class Weight:
    """A parameter."""

    shape: tuple[int, ...] | None
    dtype: torch.dtype
    trained: bool
    changes: int
    """in place, since it was made: another initialisation or loaded values are more of them, or fewer"""


@dataclass(frozen=True)
class ModelLook:
    """What a model is made of, before its first forward."""

    parts: Mapping[str, Part]
    weights: Mapping[str, Weight]

    @classmethod
    def at(cls, model: nn.Module) -> ModelLook:
        parts = {name: _part(item) for name, item in model.named_modules()}
        return cls(parts, {name: _weight(item) for name, item in model.named_parameters()})

    def sizes(self) -> str:
        """Return how many parameters there are, and how many of them are trained, in words."""
        known = [(_size(item), item.trained) for item in self.weights.values()]
        return f"{sum(size for size, _ in known):,} parameters ({sum(size for size, it in known if it):,} trained)"


def rebuild(code: str, seen: Sequence[ModelLook], trained: nn.Module, writer: Writer) -> tuple[list[str], list[str]]:
    """Build a model by the code that was written of it, and compare it with what the script trained.

    Args:
        seen: that model, or each of several in one module, before its first forward.

    Returns:
        Lines that make it what the script trained, and what is different nevertheless, in words.
    """
    lines: list[str] = []
    try:
        model = eval(code, writer.namespace())
        for line in itertools.islice(mending(seen[0], model, trained, writer), MOST_LINES if len(seen) == 1 else 0):
            exec(line, {**writer.namespace(), "built": model})
            lines.append(line)
    except Exception as error:
        return lines, [f"building it again fails: {brief(error)}"]
    model.train()  # as every training of a workload begins
    if len(seen) == 1:
        return lines, list(differences(seen[0], ModelLook.at(model)))
    parts = zip(seen, model.children(), strict=True)
    return lines, [f"model {n}: {note}" for n, (look, part) in enumerate(parts)
                   for note in differences(look, ModelLook.at(part))]  # fmt: skip


def differences(seen: ModelLook, built: ModelLook) -> Iterator[str]:
    """Yield in words how the model that a script trained is another one than the one that was built."""
    if seen.sizes() != built.sizes():
        yield f"the script's has {seen.sizes()}, this one {built.sizes()}"
    others = replaced(seen, built)
    if others:
        yield f"modules that were replaced, added, taken away or tied after it was made: {_some(others)}"
    found: dict[str, list[str]] = {}
    for name, one, other in _both(seen.weights, built.weights, others):
        if one.dtype != other.dtype:
            found.setdefault(f"{one.dtype} in the script, and here {other.dtype}", []).append(name)
        if one.trained != other.trained:
            found.setdefault(f"{'trained' if one.trained else 'frozen'} in the script alone", []).append(name)
        if one.changes != other.changes:
            found.setdefault("weights that the script sets after it was made, as by loading them", []).append(name)
    for path, part, its in _both(seen.parts, built.parts, others):
        if part.compiled and not its.compiled:
            found.setdefault("compiled by the script", []).append(path)
        for name in sorted(part.settings.keys() | its.settings.keys()):
            was, is_now = part.settings.get(name), its.settings.get(name)
            if repr(was) != repr(is_now):
                found.setdefault(f"{name} is {was!r} in the script, and here {is_now!r}", []).append(path)
    for words, names in found.items():
        yield f"{words}: {_some(names)}"


def replaced(seen: ModelLook, built: ModelLook) -> list[str]:
    """Return the outermost modules that are of another kind, or have other parameters themselves."""
    found = {name for name in seen.parts.keys() ^ built.parts.keys()}
    found |= {name for name, one, other in _both(seen.parts, built.parts) if one.kind is not other.kind}
    for name in seen.weights.keys() | built.weights.keys():
        one, other = seen.weights.get(name), built.weights.get(name)
        if one is None or other is None or one.shape != other.shape:
            found.add(name.rpartition(".")[0])
    order = {name: number for number, name in enumerate([*seen.parts, *built.parts])}
    return sorted((name for name in found if not _inside(name, found - {name})), key=order.__getitem__)


def mending(seen: ModelLook, model: nn.Module, trained: nn.Module, writer: Writer) -> Iterator[str]:
    """Yield lines that make `built`, as they call this model, more like the one that a script trained.

    Each is to be carried out before the next is asked for: modules are replaced, then frozen, then converted.
    """
    for path in replaced(seen, ModelLook.at(model)):
        if not path or path not in seen.parts:
            continue
        module = trained.get_submodule(path)
        if all(f"{path}.{name}" in seen.weights for name, _ in module.named_parameters()):  # else one is tied
            try:
                code = writer.expression(module)
            except Unseen:
                continue
            plain = all(word.isidentifier() for word in path.split("."))
            yield f"built.{path} = {code}" if plain else f"built.set_submodule({path!r}, {code})"
    built = ModelLook.at(model)
    for value in (False, True):
        both = _both(seen.weights, built.weights)
        names = {name for name, one, other in both if one.trained is value is not other.trained}
        yield from _switched(seen, names, value)
    formats = {(one.dtype, other.dtype) for _, one, other in _both(seen.weights, built.weights)}
    if len(formats) == 1:
        ((was, is_now),) = formats
        if was != is_now:
            yield f"built.to({was})"


def _switched(seen: ModelLook, names: set[str], value: bool) -> Iterator[str]:
    """Yield lines that freeze or train these parameters, whole modules at once where all in them are alike."""
    left = set(names)
    for path in seen.parts:
        inside = {name for name in seen.weights if _inside(name, {path})}
        if inside & left and all(seen.weights[name].trained is value for name in inside):
            left -= inside
            of = f".get_submodule({path!r})" if path else ""
            yield f"built{of}.requires_grad_({value})"
    for name in seen.weights:
        if name in left:
            yield f"built.get_parameter({name!r}).requires_grad_({value})"


def _both(one: Mapping[str, T], other: Mapping[str, T], without: Iterable[str] = ()) -> Iterator[tuple[str, T, T]]:
    """Yield what both have, but not within these modules."""
    left_out = set(without)
    for name in one:
        if name in other and not _inside(name, left_out):
            yield name, one[name], other[name]


def _inside(name: str, modules: set[str]) -> bool:
    """Whether a module or parameter is one of these modules, or in one."""
    words = name.split(".") if name else []
    return any(".".join(words[:length]) in modules for length in range(len(words) + 1))


def _part(module: nn.Module) -> Part:
    plain = {name: item for name, item in vars(module).items() if not name.startswith("_") and _plain(item)}
    return Part(type(module), vars(module).get("_compiled_call_impl") is not None, plain)


def _plain(value: Any) -> bool:
    return isinstance(value, PLAIN) or (isinstance(value, tuple) and all(map(_plain, value)))


def _weight(item: nn.Parameter) -> Weight:
    if isinstance(item, UninitializedParameter):
        return Weight(None, item.dtype, item.requires_grad, 0)
    return Weight(tuple(item.shape), item.dtype, item.requires_grad, item._version)


def _size(weight: Weight) -> int:
    return 0 if weight.shape is None else torch.Size(weight.shape).numel()


def _some(names: list[str]) -> str:
    shown = ", ".join(name or "the model itself" for name in names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"
