"""Files that the script loads by `torch.load`: one that trains nothing may have found its own training done in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from autotune.scripting.changes import Changes

MOST_NAMED = 3


class Checkpoints:
    """Notes what was loaded."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def install(self, changes: Changes) -> None:
        load = torch.load

        def note_load(f: Any, *args: Any, **kwargs: Any) -> Any:
            path = getattr(f, "name", f)
            if isinstance(path, str | os.PathLike):
                self._names[Path(path).name] = None
            return load(f, *args, **kwargs)

        changes.patch(torch, "load", note_load)

    def __str__(self) -> str:
        """The names of the files, as "last.pt, best.pt"; empty where it loaded none."""
        names = list(self._names)
        return ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
