"""Wishes as they are given from Python: brought to their types, and checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

from autotune.config import Config
from autotune.errors import ConfigError, UsageError
from autotune.options import option_named
from autotune.records import Limits
from autotune.search.setup import Wishes
from autotune.sizes import parse_share, parse_size


def wishes_from(asked: Mapping[str, Any]) -> Wishes:
    """Return the wishes; sizes and shares may be written as on the command line.

    Raises:
        UsageError: an unknown wish, or one of another type or size; names it.
    """
    kinds = {item.name: str(item.type) for item in fields(Wishes)}
    unknown = [name for name in asked if name not in kinds]
    if unknown:
        raise UsageError(f"tune() knows no {unknown[0]}", hint=f"It takes: {', '.join(kinds)}.")
    return Wishes(**{name: _brought(name, kinds[name], value) for name, value in asked.items()})


def _brought(name: str, kind: str, value: Any) -> Any:
    base, _, optional = kind.partition(" | ")
    if value is None and optional:
        return None
    if name in TEXTS and isinstance(value, str):
        value = TEXTS[name](value, f"tune({name}=...):")
    if name in OWN:
        return OWN[name](name, value)
    return PLAIN[base](name, value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise _refused(name, "a finite number", value)
    if not _within(name, float(value)):
        raise UsageError(f"tune({name}={value}) is out of range")
    return float(value)


def _whole(name: str, value: Any) -> int:
    round_float = isinstance(value, float) and value.is_integer()  # 20e9, as bytes are written
    if isinstance(value, bool) or not (isinstance(value, Integral) or round_float):
        raise _refused(name, "a whole number", value)
    if name != "seed" and value < 1:
        raise UsageError(f"tune({name}={value}): it is at least 1")
    return int(value)


def _within(name: str, value: float) -> bool:
    """Return whether a number is one that the wish can be."""
    if name == "headroom":
        return 0 <= value < 1
    if name == "keep":
        return 0 < value <= 1
    return value >= 0 if name == "wait_idle_s" else value > 0


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refused(name, "True or False", value)
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refused(name, "text", value)
    return value


def _names(name: str, value: Any) -> tuple[str, ...]:
    """Return names of options; a text by itself is no list of them."""
    if isinstance(value, str | Mapping) or not isinstance(value, Collection):
        raise _refused(name, 'a list of options, as ["precision"]', value)
    for item in value:
        try:
            option_named(_text(name, item))
        except ConfigError as error:
            raise UsageError(f"tune({name}=...): {error.message}", hint=error.hint) from None
    return tuple(value)


def _values(name: str, value: Any) -> dict[str, Any]:
    """Return values of options by name."""
    if not isinstance(value, Mapping):
        raise _refused(name, 'a dict, as {"batch_size": 64}', value)
    for option, one in value.items():
        _check_value(name, option, one)
    return dict(value)


def _choices(name: str, value: Any) -> dict[str, list[Any]]:
    """Return several values of options by name."""
    if not isinstance(value, Mapping):
        raise _refused(name, 'a dict, as {"num_workers": [0, 2, 4]}', value)
    for option, several in value.items():
        if isinstance(several, str | Mapping) or not isinstance(several, Collection) or not several:
            raise _refused(name, f"a list of values for {option}", several)
        for one in several:
            _check_value(name, option, one)
    return {option: list(several) for option, several in value.items()}


def _limits(name: str, value: Any) -> Limits:
    if not isinstance(value, Limits):
        raise _refused(name, "Limits", value)
    return value


def _check_value(name: str, option: Any, value: Any) -> None:
    try:
        Config(**{_text(name, option): value})
    except ConfigError as error:
        raise UsageError(f"tune({name}=...): {error.message}", hint=error.hint) from None


def _refused(name: str, wanted: str, value: Any) -> UsageError:
    return UsageError(f"tune({name}=...) takes {wanted}, not {value!r:.80}")


TEXTS: dict[str, Callable[[str, str], Any]] = {
    "memory_limit_bytes": parse_size,
    "host_memory_limit_bytes": parse_size,
    "headroom": parse_share,
}
OWN: dict[str, Callable[[str, Any], Any]] = {
    "baseline": _values,
    "fixed": _values,
    "restricted": _choices,
    "excluded": _names,
    "allowed": lambda name, value: frozenset(_names(name, value)),
    "limits": _limits,
}
PLAIN: dict[str, Callable[[str, Any], Any]] = {"int": _whole, "float": _number, "bool": _switch, "str": _text}
