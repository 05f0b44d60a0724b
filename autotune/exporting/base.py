"""What is exported, and what a target must say of itself: by construction, nothing is dropped in silence."""

from __future__ import annotations

import os
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from autotune.config import Config, read_document
from autotune.options import OPTIONS, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan, edits_of, plan_for
from autotune.words.text import clean

CARRIED_OUT_BY = {
    "switches": "first",
    "expandable_segments": "first",
    "cache_dataset": "dataset",
    "worker_affinity": "loader",
    "model_transforms": "model",
    "tensor_transforms": "tensor",
}
"""fields of the plan that hold no data to write down, and the part of a snippet that does the same"""

MARKS = frozenset({"compiles"})
"""fields that say something of others, and do nothing themselves"""


@dataclass(frozen=True)
class Export:
    """A config with the file that it stands in."""

    config: Config
    document: Mapping[str, Any] = field(default_factory=dict)
    """the tables beside [options]"""
    name: str = "a config"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Export:
        """Read a config file.

        Raises:
            ConfigError: it cannot be read or is none; as `Config.load`.
        """
        return cls(Config.load(path), read_document(path), Path(path).name)

    @cached_property
    def effective(self) -> dict[str, Value]:
        """The values that have an effect beside the others."""
        return {name: value for name, value in self.config.items() if name not in self.inert}

    @cached_property
    def inert(self) -> dict[str, str]:
        """The options without effect, and why."""
        found = {}
        for name in self.config:
            needed = OPTIONS[name].needs
            if needed is not None and self.config.value(needed) == OPTIONS[needed].default:
                found[name] = f"without effect, since {needed} is {said(self.config.value(needed))}"
        return found

    @cached_property
    def plan(self) -> Plan:
        blocks = self.table("workload").get("checkpoint_blocks")
        return plan_for(self.effective, blocks if isinstance(blocks, str) else None)

    @cached_property
    def snippets(self) -> list[Snippet]:
        """The snippets of the values, in the order in which options are applied."""
        options = sorted((OPTIONS[name] for name in self.effective), key=lambda option: option.order)
        return [option.snippet(self.effective[option.name]) for option in options]

    def only(self, names: Collection[str]) -> Export:
        """Return the same with some of the options alone."""
        return replace(self, config=Config(**{name: value for name, value in self.config.items() if name in names}))

    def table(self, name: str) -> dict[str, Any]:
        """Return a table of the file; empty where there is none."""
        found = self.document.get(name)
        return dict(found) if isinstance(found, dict) else {}

    @property
    def notes(self) -> list[str]:
        lines = self.table("notes").get("lines")
        return [clean(str(line)) for line in lines] if isinstance(lines, list) else []

    @property
    def made_on(self) -> str:
        """The machine that the config was measured on, in one line."""
        machine = self.table("machine")
        words = [str(machine["device"])] if "device" in machine else []
        words += [f"{name} {machine[name]}" for name in ("cores", "torch", "driver") if name in machine]
        return clean(", ".join(words))

    @property
    def on_cpu(self) -> bool:
        """Whether the file says that the config was measured on a CPU."""
        return self.table("machine").get("torch_device") == "cpu"

    @property
    def measured(self) -> str:
        """What was measured, in one line."""
        return clean(str(self.table("measured").get("status", "")))

    @property
    def stream(self) -> bool:
        """Whether the data are known to have no known length."""
        workload = self.table("workload")
        return bool(workload) and "dataset_length" not in workload


class Target(ABC):
    """One format. It names the fields of a plan that it can express; all others are listed as left out."""

    name: str
    help: str
    suffix: str
    fields: frozenset[str] = frozenset()
    """of the plan, that it expresses, each as data or by a snippet's lines"""
    loader: frozenset[str] | None = None
    """arguments of the DataLoader that it expresses; None: all"""
    reasons: Mapping[str, str] = {}
    """why it does not express what it does not, by field of the plan or argument of the loader"""

    @abstractmethod
    def write(self, export: Export) -> str:
        """Return the file's text, what is left out included."""

    def left_out(self, export: Export) -> dict[str, str]:
        """Return the options that the target does not express, and why."""
        found = dict(export.inert)
        for name, value in export.effective.items():
            reason = self.refusal(name, value)
            if reason:
                found[name] = reason
        return {name: found[name] for name in export.config if name in found}

    def expressed(self, export: Export) -> Export:
        """Return the export with the options that the target expresses alone."""
        return export.only(set(export.config) - set(self.left_out(export)))

    def refusal(self, name: str, value: Value) -> str | None:
        """Return why a value of an option cannot be expressed, or None."""
        edited = edits_of(name, value) - MARKS
        snippet = OPTIONS[name].snippet(value)
        for item in sorted(edited):
            if item not in self.fields:
                return self.reasons.get(item, f"{self.name} has no setting for it")
            part = CARRIED_OUT_BY.get(item)
            if part is not None and not getattr(snippet, part):
                return "there is no plain PyTorch for it"
        if self.loader is not None:
            for argument in plan_for({name: value}).loader:
                if argument not in self.loader:
                    return self.reasons.get(argument, f"{self.name} has no setting for it")
        return None

    def caveats(self, export: Export) -> Iterator[str]:
        """Yield where what the target does differs from what was measured."""
        yield from ()


def said(value: Value) -> str:
    """Return a value as TOML spells it."""
    return (
        str(value).lower() if isinstance(value, bool) else f'"{clean(value)}"' if isinstance(value, str) else str(value)
    )


def comment(text: str, indent: str = "", width: int = 110) -> str:
    """Return any text as lines of comment: nothing of it can leave them."""
    lines: list[str] = []
    for line in clean(text).splitlines() or [""]:
        lines += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)
