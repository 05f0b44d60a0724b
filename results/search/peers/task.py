"""What a peer is given and what it gives back, in plain data: peers run in environments of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Final:
    """A peer's answer."""

    config: dict[str, Any]
    """in the tool's options, changes against the baseline and all; what is not said stays as the baseline has it"""
    compile_mode: str = ""
    """of torch.compile where the peer sets it itself, in whatever mode; empty: as `config` says"""
    not_expressed: str = ""
    """what else of the answer the tool's options cannot say, in words"""
    own_claim: str = ""
    """what the peer itself says of its answer"""


@dataclass(frozen=True, kw_only=True)
class Task:
    """An example to tune, and the time for it."""

    script: str
    budget_s: float
    baseline: dict[str, Any]
    expert: dict[str, Any]
    """what an experienced engineer would set first"""
    choices: dict[str, list[Any]]
    """of each option"""
    memory_bytes: int
    """as much as the tool's own trials may use"""
    answer: str
    """path that answers are written to"""
    seed: int = 0
    began: float = field(default_factory=time.monotonic)

    def left_s(self) -> float:
        return self.budget_s - (time.monotonic() - self.began)

    def so_far(self, final: Final) -> None:
        """Note an answer that stands if the time runs out before a better one."""
        path = Path(self.answer)
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(final)))
        os.replace(unfinished, path)

    def module(self) -> ModuleType:
        """Import the example; its `workload` has the factories."""
        path = Path(self.script)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # loader workers look it up by this name
        spec.loader.exec_module(module)
        return module
