"""Runs one peer in this process: `python worker.py PEER TASK.json`. Its memory is limited as a trial's is."""

from __future__ import annotations

import importlib
import json
import resource
import sys
from pathlib import Path

from task import Task


def main() -> None:
    name, path = sys.argv[1:]
    task = Task(**json.loads(Path(path).read_text()))
    # an allocation beyond it fails in a way that batch size finders understand; without, the kernel ends the process
    resource.setrlimit(resource.RLIMIT_DATA, (task.memory_bytes, task.memory_bytes))
    task.so_far(importlib.import_module(f"contestants.{name}").tune(task))


if __name__ == "__main__":
    main()
