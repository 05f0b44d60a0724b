"""Config: the values of the options. Immutable, hashable, TOML in and out."""

from __future__ import annotations

import os
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autotune.documents import read_text
from autotune.errors import ConfigError
from autotune.options import OPTIONS, Value, option_named

MAX_FILE_BYTES = 1 << 20  # a config is some kilobytes; anything larger is not one


class Config(Mapping[str, Value]):
    """Values of options, by name.

    A mapping over the options that are set explicitly; `config.value(name)` falls back to PyTorch's default.
    Two configs are equal when they set the same values.

        Config(batch_size=64, precision="bf16")
        Config.load("results/train/best.toml")
    """

    __slots__ = ("_hash", "_values")

    def __init__(self, /, **values: Value) -> None:
        for name, value in values.items():
            complaint = option_named(name).check(value)
            if complaint:
                raise ConfigError(f"{name} = {value!r}: {name} {complaint}")
        # sorted by the registry, so that equal configs print and hash alike
        self._values = {name: values[name] for name in OPTIONS if name in values}
        self._hash = hash(tuple(self._values.items()))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._values == other._values

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def value(self, name: str) -> Value:
        """Return the value set here, else PyTorch's default."""
        return self._values[name] if name in self._values else option_named(name).default

    def replace(self, /, **values: Value) -> Config:
        """Return a copy with some values changed."""
        return Config(**{**self._values, **values})

    def difference(self, other: Config) -> dict[str, Value]:
        """Return the values of this config that differ from those that `other` comes to."""
        names = [name for name in OPTIONS if name in self or name in other]
        return {name: self.value(name) for name in names if self.value(name) != other.value(name)}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Config:
        """Read a config file; nothing in it is ever executed.

        Warns when the file was made for another machine or torch, naming what differs.

        Raises:
            ConfigError: no such file, not TOML, no [options], an unknown option or value.
        """
        document = read_document(path)
        for difference in _differences_from_here(document):
            warnings.warn(f"{path} was made for {difference}; search again here", stacklevel=2)
        options = document.get("options")
        if not isinstance(options, dict):
            raise ConfigError(f"{path} has no [options] table, so it is not an autotune config")
        try:
            return cls(**options)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}", hint=error.hint) from None


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a config file whole, with the tables beside [options].

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    path = Path(path)
    try:
        return tomllib.loads(read_text(path, MAX_FILE_BYTES))
    except FileNotFoundError:
        raise ConfigError(f"no such config: {path}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not text, a number of thousands of digits, too deep
        raise ConfigError(f"{path} is damaged: {error}") from None


def _differences_from_here(document: Mapping[str, Any]) -> list[str]:
    """Return what the file says of its machine that is not so here, as "torch 2.12.0 (here 2.13.0)"."""
    made_on = document.get("machine")
    if not isinstance(made_on, dict):
        return []
    from autotune.machine import Machine

    here = Machine.read().identity(str(made_on.get("torch_device", "")), made_on.get("device", ""))
    return [
        f"{name} {made_on[name]} (here {here[name]})"
        for name in here
        if name in made_on and made_on[name] != here[name]
    ]
