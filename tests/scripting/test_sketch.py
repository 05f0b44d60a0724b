"""`autotune init`: the file that it writes trains as the script does, or says what is missing."""

from __future__ import annotations

import shutil
import sys

import pytest

from autotune import cli
from autotune.facts import ScriptFacts
from autotune.records import Outcome
from tests.workload.real_trials import SCRIPTS

TOP_LEVEL = """
    import argparse
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, required=True)
    args = parser.parse_args()
    SIZE, CLASSES = 12, 2
    names = [f"class {number}" for number in range(CLASSES)]

    class Points(Dataset):
        def __init__(self, length, shift=0.0):
            self.x = torch.randn(length, SIZE, generator=torch.Generator().manual_seed(0)) + shift
        def __len__(self):
            return len(self.x)
        def __getitem__(self, index):
            return self.x[index], int(self.x[index].sum() > 0)

    def collate(samples):
        return torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])

    class Net(nn.Module):
        def __init__(self, hidden, *, dropout=0.0):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(SIZE, hidden), nn.Tanh(), nn.Linear(hidden, len(names)))
        def forward(self, x):
            return self.body(x)

    model = Net(args.hidden, dropout=0.1)
    loader = DataLoader(Points(256, shift=0.5), batch_size=32, shuffle=True, collate_fn=collate, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, betas=(0.9, 0.98))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(20):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.fixture
def init(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["autotune", "init", *map(str, words)])
        status = 0
        try:
            cli.main()
        except SystemExit as ended:
            status = ended.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def trained(real, script):
    facts = real.probe(script)
    record = real.run(script, config=dict(facts.baseline), dataset_length=facts.dataset_length)
    assert record.outcome is Outcome.OK, record.failure
    return facts


def test_a_script_that_trains_on_import_is_copied_from(init, real, write):
    script = write(TOP_LEVEL)
    status, out, err = init(script, "--", "--hidden", "16")
    assert status == 0, err
    assert "complete in it" not in out
    written = script.with_name("train_tune.py")
    text = written.read_text()
    assert "return Net(16, dropout=0.1)" in text
    assert "return Points(256, shift=0.5)" in text
    assert "torch.optim.AdamW(parameters, lr=0.003, betas=(0.9, 0.98))" in text
    assert "cross_entropy(output, batch[1], label_smoothing=0.1)" in text
    assert "names = ['class 0', 'class 1']" in text
    assert "SIZE, CLASSES = 12, 2" in text
    assert "args" not in text
    facts = trained(real, written)
    assert facts.baseline["batch_size"] == 32
    assert facts.drop_last
    assert facts.dataset_length == 256
    status, _, err = init(script, "--", "--hidden", "16")
    assert status == 2
    assert "--force" in err


@pytest.mark.parametrize("name", ["dict_transformer", "loss_from_model"])
def test_a_script_with_a_main_guard_is_imported_from(real, tmp_path, name):
    script, written = tmp_path / f"{name}.py", tmp_path / f"{name}_tune.py"
    shutil.copy(SCRIPTS / "unmodified" / script.name, script)
    record = real.run(script, "sketch", unmodified=True, found=ScriptFacts(loader=0), baseline={"batch_size": 8})
    assert not record.facts["missing"]
    written.write_text(record.facts["text"])
    assert f"import {name}\n" in record.facts["text"]
    assert trained(real, written).optimizer in ("AdamW", "SGD")


PACKAGED = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
    {imports}

    def main():
        model = nets.Net(8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(20):
            for x, y in DataLoader(nets.Data(), batch_size=8):
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()

    if __name__ == "__main__":
        main()
"""
NETS = """
    import torch
    class Data(torch.utils.data.Dataset):
        def __len__(self): return 64
        def __getitem__(self, index): return torch.ones(4), torch.ones(1)
    class Net(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 1))
        def forward(self, x): return self.layers(x)
"""


@pytest.mark.parametrize("imports", ["from . import nets", "from vision import nets"])
def test_the_file_of_a_script_of_a_package_is_of_that_package(real, write, tmp_path, imports):
    (tmp_path / "vision").mkdir()
    write(NETS, "vision/nets.py")
    script = write(PACKAGED.format(imports=imports), "vision/train.py")
    record = real.run(script, "sketch", unmodified=True, found=ScriptFacts(loader=0), baseline={"batch_size": 8})
    assert "return vision.nets.Net(8)" in record.facts["text"]
    assert trained(real, write(record.facts["text"], "vision/train_tune.py")).parameters == 49


def test_what_does_not_show_is_named_and_stands_in_the_file(init, real, tmp_path):
    script = tmp_path / "dcgan.py"
    shutil.copy(SCRIPTS / "unmodified" / script.name, script)
    status, out, err = init(script, "--out", tmp_path / "mine.py")
    assert status == 0, err
    assert "complete in it: build_dataset, build_optimizer, training_step" in out
    text = (tmp_path / "mine.py").read_text()
    assert "built = torch.nn.ModuleList(" in text
    assert "the model: model 1: weights that the script sets after it was made, as by loading them: 0.weight" in out
    assert "return the TensorDataset of dcgan.py:10" in text
    assert "#         errD_real.backward()" in text
    failure = real.refusal(tmp_path / "mine.py")
    assert "NotImplementedError" in failure.message


def test_a_script_with_a_workload_needs_none(init, write):
    script = write("import autotune\nworkload = autotune.Workload(model=1, dataset=2)")
    status, _, err = init(script)
    assert status == 2
    assert "has a workload already" in err


CLOSURE = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    loader = DataLoader(TensorDataset(torch.ones(64, 4), torch.ones(64, 1)), batch_size=8, shuffle=True)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    for epoch in range(20):
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                return loss
            optimizer.step({given})
"""


@pytest.mark.parametrize("given", ["closure", "closure=closure"])
def test_a_step_that_its_optimizer_makes_by_a_closure_is_left_to_a_person(real, write, given):
    script = write(CLOSURE.format(given=given))
    record = real.run(script, "sketch", unmodified=True)
    assert "training_step" in " ".join(record.facts["missing"])
    assert "gives its optimizer a closure" in record.facts["text"]
