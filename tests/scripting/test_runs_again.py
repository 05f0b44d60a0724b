"""A script that is too short is begun again: it finds its process as it did the first time."""

from __future__ import annotations

import pytest

from autotune.records import Outcome
from tests.scripting.test_trials import probed_and_measured

SHORT = """
    import atexit, os, signal, sys, tempfile, weakref
    import torch
    import torch.multiprocessing as mp
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    kept = sys.__dict__.setdefault("kept", [])  # over the runs

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
    "what is set once": ("mp.set_start_method('spawn'); torch.set_num_interop_threads(3)", "pass"),
    "a handler of its own": ("assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL", "signal.signal(15, print)"),
    "something to do at its end": (
        "class A: pass\n        a = A(); kept.append(weakref.ref(a)); atexit.register(id, a); "
        "assert [item() for item in kept[:-1]] == [None] * (len(kept) - 1)",
        "pass",
    ),
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_script_that_runs_again_begins_as_it_did_before(real, write, name):
    before, after = LEAVES[name]
    _, record = probed_and_measured(real, write(SHORT.format(before=before, after=after)))
    assert record.outcome is Outcome.OK, record.failure
    assert "script_rerun" in record.measurement.flags


PERSISTENT = """
    import multiprocessing
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Trainer:
        def __init__(self):
            self.model, self.kept = nn.Linear(4, 1), self
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
            self.model.hook = self.model.weight.register_post_accumulate_grad_hook(self.seen)  # never collected
            data = TensorDataset(torch.ones(40, 4), torch.ones(40, 1))
            self.loader = DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True)

        def seen(self, parameter):
            pass

        def fit(self):
            for epoch in range(4):
                for x, y in self.loader:
                    self.optimizer.zero_grad()
                    (self.model(x) - y).square().mean().backward()
                    self.optimizer.step()

    print("workers", len(multiprocessing.active_children()), flush=True)
    Trainer().fit()
"""


def test_the_workers_of_an_earlier_run_are_gone(real, write):
    _, record = probed_and_measured(real, write(PERSISTENT))
    assert record.outcome is Outcome.OK, record.failure
    assert "script_rerun" in record.measurement.flags
    assert real.log_text.count("workers 0") > 2
    assert real.log_text.count("workers") == real.log_text.count("workers 0")
