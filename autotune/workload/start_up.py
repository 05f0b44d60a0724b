"""What a script tells torch by its environment before it imports it. Here torch is there already, and heeds nothing.

What can be told anew is, at the script's first import of torch, as in a run without us; the rest is refused.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch

from autotune.device import ALLOCATOR_VARIABLES, reads_allocator_variables
from autotune.errors import ScriptError

THREADS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""how many threads torch computes with; MKL's own comes first"""
AT_START = (
    *("OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME"),
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE"),
)
"""what its libraries read once, when they are loaded"""


@contextmanager
def torch_told_anew(script: str) -> Iterator[None]:
    """Let what `script` sets in the environment until it imports torch take effect, while it is executed inside.

    Raises, where the script imports torch:
        ScriptError: it sets what has no effect any more.
    """
    before, importing = _settings(), cast(Any, builtins)
    plain = importing.__import__

    def noted(name: str, names: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        if importing.__import__ is noted and level == 0 and name.partition(".")[0] == "torch":
            importing.__import__ = plain
            _tell(script, {key: value for key, value in _settings().items() if value != before.get(key)})
        return plain(name, names, local, wanted, level)

    importing.__import__ = noted
    try:
        yield
    finally:
        if importing.__import__ is noted:
            importing.__import__ = plain


def set_threads(number: int, variable: str) -> None:
    """Let torch compute with so many threads, as `variable` says."""
    torch.set_num_threads(number)


def _settings() -> dict[str, str]:
    allocator = ALLOCATOR_VARIABLES if reads_allocator_variables() else ()
    return {name: os.environ[name] for name in (*THREADS, *AT_START, *allocator) if name in os.environ}


def _tell(script: str, changed: dict[str, str]) -> None:
    late = [f"{name}={value}" for name, value in changed.items() if name not in THREADS]
    if late:
        raise ScriptError(
            f"{script} sets {' and '.join(late)} before it imports torch, and would be measured without: where "
            "autotune runs it, torch is there already",
            hint=f"Set it outside: {' '.join(late)} autotune ... {script}",
        )
    for name in THREADS:
        if changed.get(name, "").isdigit() and int(changed[name]):
            set_threads(int(changed[name]), name)
            return
