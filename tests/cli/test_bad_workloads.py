"""Workloads that cannot run: one clear message, exit status 1, the user's own traceback where their code failed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

LINEAR = "loss=nn.CrossEntropyLoss(), baseline={'batch_size': 8})"


@dataclass
class Case:
    """A script and what is said of it."""

    name: str
    text: str
    says: tuple[str, ...]
    line: str = ""
    """of the user's traceback: where their code failed"""
    arguments: tuple[str, ...] = ()

    def __str__(self):
        return self.name


CASES = [
    Case("fails on import", "x = 1 / 0", ("train.py failed when it was imported: ZeroDivisionError",), "x = 1 / 0"),
    Case(
        "imports what is not there",
        "import a_module_that_nobody_has",
        ("ModuleNotFoundError: No module named 'a_module_that_nobody_has'",),
        "import a_module_that_nobody_has",
    ),
    Case(
        "exits on import",
        "import sys\nsys.exit(3)",
        ("train.py called sys.exit(3) when it was imported", "if __name__ == '__main__':"),
        "sys.exit(3)",
    ),
    Case(
        "c07 argparse without arguments",
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", required=True)
        args = parser.parse_args()
        """,
        ("arguments on import", "autotune search train.py -- --data", "arguments are required: --data"),
        "args = parser.parse_args()",
    ),
    Case("asks on import", "name = input('name? ')", ("EOFError", "no terminal"), "name = input('name? ')"),
    Case(
        "no workload", "def make_net():\n    return None", ("train.py has no workload; found", "make_net()", "--model")
    ),
    Case(
        "empty script", "", ("train.py has no workload", "imports autotune", "without that import it is run as it is")
    ),
    Case(
        "two workloads",
        f"a = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=data, {LINEAR}\n"
        f"b = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=data, {LINEAR}",
        ("train.py has 2 workloads: a, b", "--workload a"),
    ),
    Case(
        "unknown workload",
        f"a = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=data, {LINEAR}",
        ("no workload called b", "workloads found: a"),
        arguments=("--workload", "b"),
    ),
    Case("unknown function", "", ("has no make_net, which --model names",), arguments=("--model", "make_net")),
    Case(
        "model factory raises",
        f"def build():\n    raise KeyError('weights')\nw = autotune.Workload(model=build, dataset=data, {LINEAR}",
        ("train.py cannot be trained: KeyError: 'weights'",),
        "raise KeyError('weights')",
    ),
    Case(
        "dataset factory raises",
        "def load():\n    return open('/nowhere/data.bin')\n"
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=load, {LINEAR}",
        ("FileNotFoundError", "/nowhere/data.bin"),
        "return open('/nowhere/data.bin')",
    ),
    Case(
        "model in a factory's place",
        f"w = autotune.Workload(model=nn.Linear(4, 3), dataset=data, {LINEAR}",
        ("Workload(model=...) takes a function, not a Linear", "model=lambda: ..."),
    ),
    Case(
        "dataset in a factory's place",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=data(), {LINEAR}",
        ("Workload(dataset=...) takes a function, not a TensorDataset",),
    ),
    Case(
        "optimizer in a factory's place",
        "net = nn.Linear(4, 3)\nw = autotune.Workload(model=lambda: net, dataset=lambda: data(), "
        f"optimizer=torch.optim.SGD(net.parameters(), lr=1), {LINEAR}",
        ("Workload(optimizer=...) takes a function, not", "optimizer=lambda parameters: ..."),
    ),
    Case(
        "class of a loss",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(), loss=nn.CrossEntropyLoss)",
        ("loss=CrossEntropyLoss()",),
    ),
    Case(
        "model factory with arguments",
        "def build_model(width):\n    return nn.Linear(4, width)\ndef build_dataset():\n    return data()",
        ("build_model(width) needs more", "model=lambda: build_model(...)"),
    ),
    Case(
        "dataset factory with arguments",
        "def build_model():\n    return nn.Linear(4, 3)\ndef build_dataset(root):\n    return data()",
        ("build_dataset(root) needs more", "dataset=lambda: build_dataset(...)"),
    ),
    Case(
        "model factory returns nothing",
        f"def build():\n    nn.Linear(4, 3)\nw = autotune.Workload(model=build, dataset=lambda: data(), {LINEAR}",
        ("model() returned NoneType, which is no nn.Module",),
    ),
    Case(
        "model of TorchScript",
        f"w = autotune.Workload(model=lambda: torch.jit.script(nn.Linear(4, 3)), dataset=lambda: data(), {LINEAR}",
        ("the model is TorchScript", "Train the module that it was made of"),
    ),
    Case(
        "dataset factory returns a loader",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: DataLoader(data()), {LINEAR}",
        ("dataset() returned a DataLoader", "loader=(batch_size, **options)"),
    ),
    Case(
        "dataset factory returns two",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: (data(), data()), {LINEAR}",
        ("returned a tuple, not one dataset",),
    ),
    Case(
        "optimizer factory returns nothing",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(), "
        f"optimizer=lambda parameters: None, {LINEAR}",
        ("optimizer() returned NoneType, which is no Optimizer",),
    ),
    Case(
        "empty dataset",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(0), {LINEAR}",
        ("the dataset is empty",),
    ),
    Case(
        "c51 no batch under drop_last",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(5), drop_last=True, {LINEAR}",
        ("an epoch has 0 steps", "drop_last"),
    ),
    Case(
        "c11 samples of different size",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), "
        f"dataset=lambda: [(torch.randn(3 + i % 4), 1) for i in range(40)], {LINEAR}",
        ("the first batch cannot be loaded", "equal size", "collate_fn"),
    ),
    Case(
        "dataset item fails",
        "class Broken(Dataset):\n    def __len__(self):\n        return 40\n    def __getitem__(self, index):\n"
        "        raise IndexError('no such file')\n"
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=Broken, {LINEAR}",
        ("the first batch cannot be loaded: IndexError: no such file",),
        "raise IndexError('no such file')",
    ),
    Case(
        "loss is not a scalar",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(), "
        "loss=nn.CrossEntropyLoss(reduction='none'), baseline={'batch_size': 8})",
        ("the loss is not a scalar: it is float32[8]", "reduction='mean'"),
    ),
    Case(
        "loss is a plain number",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(), "
        "loss=lambda output, target: output.sum().item(), baseline={'batch_size': 8})",
        ("loss returned a plain number", "without .item()"),
    ),
    Case(
        "training step returns nothing",
        "def training_step(model, batch):\n    model(batch[0]).sum()\n"
        "def build_model():\n    return nn.Linear(4, 3)\ndef build_dataset():\n    return data()",
        ("training_step returned None", "return"),
    ),
    Case(
        "loss is not a number",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(), "
        "loss=lambda output, target: output.sum() * float('nan'), baseline={'batch_size': 8})",
        ("the loss is nan in the first steps",),
    ),
    Case(
        "loss does not depend on the parameters",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(), "
        "loss=lambda output, target: target.float().mean(), baseline={'batch_size': 8})",
        ("does not depend on the model's trainable parameters", "frozen"),
    ),
    Case(
        "c64 everything frozen",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3).requires_grad_(False), dataset=lambda: data(), {LINEAR}",
        ("the model has no trainable parameters", "requires_grad=False"),
    ),
    Case(
        "batch that the model cannot take",
        f"w = autotune.Workload(model=lambda: nn.Linear(7, 3), dataset=lambda: data(), {LINEAR}",
        ("the first step failed: RuntimeError: mat1 and mat2", "The batch is [float32[8, 4], int64[8]]"),
    ),
    Case(
        "c54 several losses in a list",
        "class Deep(nn.Linear):\n    def forward(self, x, y):\n"
        "        output = super().forward(x)\n        return [output.mean(), output.sum()]\n"
        "w = autotune.Workload(model=lambda: Deep(4, 3), dataset=lambda: data(), baseline={'batch_size': 8})",
        ("clearly the loss: it is [float32[], float32[]]", "training_step=(model, batch) -> scalar"),
    ),
    Case(
        "model on several devices",
        "def build():\n    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3, device='meta'))\n"
        f"w = autotune.Workload(model=build, dataset=lambda: data(), {LINEAR}",
        ("spreads over several devices", "cpu, meta"),
    ),
    Case(
        "model without values",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3, device='meta'), dataset=lambda: data(), {LINEAR}",
        ("the model is on the meta device",),
    ),
    Case(
        "data parallel model",
        f"w = autotune.Workload(model=lambda: nn.DataParallel(nn.Linear(4, 3)), dataset=lambda: data(), {LINEAR}",
        ("DataParallel", "return the plain model"),
    ),
    Case(
        "loader is no iterable",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), loader=lambda batch_size, **options: 5, {LINEAR}",
        ("the loader is a int, which is not iterable",),
    ),
    Case(
        "no dataset",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), loss=nn.CrossEntropyLoss())",
        ("a Workload needs dataset= or loader=",),
    ),
    Case(
        "unknown option in the workload",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=data, baseline={'batchsize': 8})",
        ("unknown option: batchsize", "Did you mean batch_size?"),
    ),
    Case(
        "wrong value in the workload",
        "w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=data, baseline={'batch_size': '8'})",
        ("batch_size takes a whole number",),
    ),
    Case(
        "wrong blocks named",
        f"w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: data(), checkpoint_blocks='x', {LINEAR}",
        ("checkpoint_blocks='x' is not a ModuleList or Sequential",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_workload_that_cannot_run(case, write, run, tmp_path):
    ended = run("search", write(case.text), *case.arguments, "--out", "run")
    ended.check_clear()
    assert ended.status == 1
    for part in case.says:
        assert part in ended.message
    if case.line:
        lines = ended.traceback.splitlines()
        first = next(index for index, line in enumerate(lines) if line.startswith("  File "))
        assert "train.py" in lines[first]
        assert any(case.line in line for line in lines)
    assert not list((tmp_path / "run").glob("best*"))
