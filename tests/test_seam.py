"""Nothing but the seam asks which device it is: found by reading the code, not by running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import autotune

PACKAGE = Path(autotune.__file__).parent
SEAM = "device.py"
MODULES = ("torch.cuda", "torch.accelerator", "torch.mps", "torch.xpu", "torch.backends.cuda", "torch.backends.mps")
NAMES = frozenset({"is_available", "is_cuda", "is_mps", "is_xpu", "device_count", "get_device_name"})


def questions(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every expression that asks torch which device there is, or what kind one is."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = [f"{module}.{item.name}".lstrip(".") for item in node.names]
            found = any(name == part or name.startswith(f"{part}.") for name in names for part in MODULES)
        elif isinstance(node, ast.Attribute):
            found = ast.unparse(node) in MODULES or node.attr in NAMES
        elif isinstance(node, ast.Compare):
            found = any(_is_device_type(side) for side in (node.left, *node.comparators))
        else:
            found = False
        if found:
            yield node.lineno, ast.unparse(node)


def _is_device_type(node: ast.expr) -> bool:
    """Whether an expression is `x.device.type`, `device.type` or `self._device.type`."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "type"
        and ast.unparse(node.value).rpartition(".")[2].lstrip("_") == "device"
    )


def test_only_the_seam_asks_which_device_it_is():
    asked = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).as_posix() != SEAM
        for line, text in questions(path.read_text(encoding="utf-8"))
    ]
    assert asked == []


@pytest.mark.parametrize(
    "source",
    [
        "torch.cuda.synchronize()",
        "import torch.cuda",
        "from torch import cuda",
        "from torch.cuda import amp",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.accelerator.synchronize()",
        "torch.backends.mps.is_available()",
        "x.is_cuda",
        "if tensor.device.type == 'cuda': pass",
        "if 'cpu' != self._device.type: pass",
    ],
)
def test_what_counts_as_asking(source):
    assert list(questions(source))


@pytest.mark.parametrize(
    "source",
    ["device.synchronize()", "torch.autocast(device.type)", "kind.type == 'x'", "torch.backends.cudnn.benchmark"],
)
def test_what_does_not(source):
    assert not list(questions(source))
