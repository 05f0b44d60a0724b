"""A script that is too short is begun again: it finds its process as it did the first time."""

from __future__ import annotations

import pytest

from autotune.records import Outcome
from tests.scripting.test_trials import probed_and_measured

SHORT = """
    import os, tempfile
    import torch
    import torch.multiprocessing as mp
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    def main():
        {before}
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        loader = DataLoader(TensorDataset(torch.ones(40, 4), torch.ones(40, 1)), batch_size=4, shuffle=True)
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()
        {after}

    if __name__ == "__main__":
        main()
"""
HERE = "assert os.environ.setdefault('BEGAN_IN', os.getcwd()) == os.getcwd()"
LEAVES = {
    "another folder": (HERE, "os.chdir('/')"),
    "a folder that is gone": (f"{HERE}; os.chdir(tempfile.mkdtemp())", "os.rmdir(os.getcwd())"),
    "gradients switched off": ("pass", "torch.set_grad_enabled(False)"),
    "a start method that is set once": ("mp.set_start_method('spawn')", "pass"),
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_script_that_runs_again_begins_as_it_did_before(real, write, name):
    before, after = LEAVES[name]
    _, record = probed_and_measured(real, write(SHORT.format(before=before, after=after)))
    assert record.outcome is Outcome.OK, record.failure
    assert "script_rerun" in record.measurement.flags
