"""autotune: the fastest settings for a PyTorch training script within the memory it has, by measurement."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.config import Config
    from autotune.tuned import Tuned
    from autotune.tuning import tune
    from autotune.workload import Workload

__version__ = "0.1.0"
__all__ = ["Config", "Tuned", "Workload", "__version__", "tune"]

_HOMES = {
    "Config": "autotune.config",
    "Tuned": "autotune.tuned",
    "Workload": "autotune.workload",
    "tune": "autotune.tuning",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: the command line stays free of torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
