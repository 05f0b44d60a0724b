from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import Subset

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
PART = 64  # samples are enough to see that a script works


@pytest.fixture(params=SCRIPTS, ids=lambda path: path.stem)
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path of each example in turn; what it writes goes to a folder of the test's own."""
    monkeypatch.setenv("EXAMPLE_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("EXAMPLE_SCALE", raising=False)
    return request.param


@pytest.fixture
def example(script: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Each example in turn, imported."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, script.stem, module)
    spec.loader.exec_module(module)
    if hasattr(module, "TRAIN_FILES"):
        monkeypatch.setattr(module, "TRAIN_FILES", PART)
        monkeypatch.setattr(module, "HELD_OUT_FILES", PART)
    return module


@pytest.fixture
def part(example: ModuleType) -> Callable[..., Any]:
    """The example's dataset factory, cut down to its first samples."""
    factory = example.build_dataset

    def build(*args: Any, **kwargs: Any) -> Subset[Any]:
        return Subset(factory(*args, **kwargs), range(PART))

    return build


@pytest.fixture(autouse=True)
def same_random_numbers_and_threads() -> Iterator[None]:
    """Each test starts from the same seed on one thread, and leaves the threads as they were."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    yield
    torch.set_num_threads(threads)
