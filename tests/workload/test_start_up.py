"""What a script sets in the environment before it imports torch: it counts as in a run without us, or is refused."""

from __future__ import annotations

import builtins

import pytest
import torch

from autotune.errors import ScriptError
from autotune.workload import start_up
from autotune.workload.start_up import AT_START, THREADS, torch_told_anew

TRAINS = """
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = TensorDataset(torch.ones(32, 4), torch.ones(32, 1))

if __name__ == "__main__":
    for epoch in range(1000000):
        for x, y in DataLoader(data, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
"""
WORKLOAD = """
import autotune

workload = autotune.Workload(
    model=lambda: torch.nn.Linear(4, 1), dataset=lambda: torch.utils.data.TensorDataset(torch.ones(64, 4)),
    training_step=lambda model, batch: model(batch[0]).square().mean(),
)
"""
SET = 'import os\nos.environ["OMP_NUM_THREADS"] = "3"\n'


@pytest.fixture
def own_environment(monkeypatch):
    """Whatever a test sets there goes with it."""
    for name in (*THREADS, *AT_START, "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def told(text):
    """Execute a script's text as it is executed in a trial."""
    with torch_told_anew("train.py"):
        exec(text, {"__name__": "told"})


def test_a_script_computes_with_the_threads_that_it_asks_for_before_it_imports_torch(real, write):
    script = write(f"{SET}import torch\n{TRAINS}", name="train.py", head="")
    facts = real.probe(script, unmodified=True)
    assert facts.default_threads == 3
    assert facts.refused["num_threads"] == "the script sets OMP_NUM_THREADS=3 itself"
    assert real.probe(write(f"{SET}import torch\n{WORKLOAD}", name="work.py", head="")).default_threads == 3


@pytest.mark.usefixtures("own_environment")
@pytest.mark.parametrize(
    ("text", "threads"),
    [
        (f"{SET}import torch", 3),
        (f"{SET}from torch.nn import functional", 3),
        (f"{SET}import json\nimport torch\nos.environ['OMP_NUM_THREADS'] = '5'\nimport torch.nn", 3),
        (f"{SET}os.environ['MKL_NUM_THREADS'] = '5'\nimport torch", 5),
        (f"import torch\n{SET}import torch.nn", 1),  # torch has read it by then
        ("import os\nos.environ['OMP_NUM_THREADS'] = 'all'\nimport torch", 1),
        ("import json", 1),
    ],
)
def test_what_is_set_until_torch_is_imported_counts(text, threads):
    torch.set_num_threads(1)  # set back by the fixture that every test gets
    before = builtins.__import__
    told(text)
    assert torch.get_num_threads() == threads
    assert builtins.__import__ is before


@pytest.mark.usefixtures("own_environment")
def test_what_cannot_be_told_anew_is_refused_with_the_way_out(monkeypatch):
    with pytest.raises(ScriptError, match=r"train.py sets OMP_PROC_BIND=true before it imports torch") as caught:
        told("import os\nos.environ['OMP_PROC_BIND'] = 'true'\nimport torch")
    assert "OMP_PROC_BIND=true autotune ... train.py" in caught.value.hint
    allocator = "import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'max_split_size_mb:64'\nimport torch"
    monkeypatch.setattr(start_up, "reads_allocator_variables", lambda: True)
    with pytest.raises(ScriptError, match="PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"):
        told(allocator)
    told(allocator)  # set outside, it is heeded
    told("import torch")


@pytest.mark.parametrize("unmodified", [True, False])
def test_a_script_that_fails_before_it_imports_torch_has_its_own_traceback(real, write, unmodified):
    failure = real.refusal(write("import nonesuch\n", head=""), unmodified=unmodified)
    assert "nonesuch" in failure.message
    assert "import nonesuch" in failure.traceback
    assert "autotune/" not in failure.traceback
