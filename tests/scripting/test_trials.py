"""Trials of unmodified scripts in processes of their own: what is found, and that nothing else is computed."""

from __future__ import annotations

import pytest

from autotune.records import Outcome
from tests.scripting.conftest import PROGRAMS

LOADER = """
    import time, torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, TensorDataset

    class Slow(Dataset):
        def __len__(self):
            return 32
        def __getitem__(self, index):
            time.sleep({load})
            return torch.ones(4), torch.ones(1)

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Slow(), batch_size=4, shuffle=True)
    test_loader = DataLoader(Slow(), batch_size=4)

    @torch.no_grad()
    def evaluate(seconds):
        model.eval()
        for x, _ in test_loader:
            model(x)
            time.sleep(seconds / 8)
        model.train()

    for epoch in range({epochs}):
        model.train()
        for step, (x, y) in enumerate(loader):
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            {inside}
        {after}
"""


def probed_and_measured(real, script, *arguments):
    facts = real.probe(script, unmodified=True, arguments=arguments)
    return facts, real.run(
        script,
        config=dict(facts.baseline),
        unmodified=True,
        arguments=arguments,
        found=facts.script,
        dataset_length=facts.dataset_length,
        fixed_batch=facts.fixed_batch is not None,
    )


FOUND = {
    "digits": {"model": "Net", "optimizer": "Adadelta", "dataset_length": 168},
    "accumulating": {"own_autocast": True, "own_scaler": True, "dataset_length": 256},
    "gan": {"optimizer": "Adam, Adam", "dataset_length": 200, "own_autocast": False},
    "memmap": {"model": "Model", "chain": "blocks", "chain_refused": None, "chain_length": 3},
    "stream": {"iterable": True, "workers_refused": None, "dataset_length": None},
}
HOW = {
    "digits": {"loader": 0, "batches_per_update": 1},
    "accumulating": {"loader": 0, "batches_per_update": 4},
    "gan": {"loader": 0, "updates_per_step": 2},
    "memmap": {"loader": None, "samples_per_step": 12},
    "stream": {"loader": 0},
}


@pytest.mark.parametrize("name", FOUND)
def test_a_script_is_found_out_and_computes_what_it_computes_alone(real, alone, name):
    script = PROGRAMS / f"{name}.py"
    facts, record = probed_and_measured(real, script)
    assert {key: getattr(facts, key) for key in FOUND[name]} == FOUND[name]
    assert {key: getattr(facts.script, key) for key in HOW[name]} == HOW[name]
    assert facts.fixed_batch is None or name == "memmap"
    assert record.outcome is Outcome.OK, record.failure
    found = record.measurement
    assert found.updates >= 3
    size = 168 / 11 if name == "digits" else facts.baseline["batch_size"]
    assert found.samples_per_step == pytest.approx(size, rel=0.02)  # each run's first step is not among the timed ones
    first = facts.script.batches_per_update  # until the first update nothing is measured
    shown = 2.0 if name == "memmap" else 1.0  # it divides its loss after it has looked at it
    own = [loss / shown for loss in alone(script)]
    assert list(found.losses) == own[first : first + len(found.losses)]  # bit for bit
    assert "went on after" not in real.log_text


REPLAY = """
    import torch
    from torch import nn

    BATCH_SIZE = {size}
    q, target = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizer = torch.optim.Adam(q.parameters())
    memory = [torch.randn(4) for _ in range(64)]
    for episode in range(400):
        state = torch.randn(4)
        for act in range(4):
            with torch.no_grad():
                action = q(state[None]).argmax()
        batch = torch.stack(memory[:{given}])
        with torch.no_grad():
            wanted = target(batch).max(1).values
        loss = (q(batch).max(1).values - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("size", "given", "samples", "words"), [(32, 32, 32, "; 32 samples a step"), (32, 48, 1, "counts as one sample")]
)
def test_the_samples_of_a_step_are_those_it_trains_on(real, write, size, given, samples, words):
    facts, record = probed_and_measured(real, write(REPLAY.format(size=size, given=given)))
    assert facts.script.samples_per_step == record.measurement.samples_per_step == samples
    assert facts.fixed_batch.endswith(words)


def test_an_evaluation_is_left_out_of_the_time_and_what_stands_in_the_loop_is_not(real, write):
    between = write(LOADER.format(load=0, epochs=100, inside="pass", after="evaluate(0.1)"))
    facts, record = probed_and_measured(real, between)
    assert facts.script.loader == 0
    assert record.measurement.step_s < 0.02
    assert "evaluations took" in record.measurement.unmet
    now_and_then = write(LOADER.format(load=0, epochs=100, inside="if step == 3: evaluate(0.1)", after="pass"), "b.py")
    _, record = probed_and_measured(real, now_and_then)
    assert record.measurement.mean_step_s < 0.02
    inside = write(LOADER.format(load=0, epochs=100, inside="time.sleep(0.03)", after="pass"), "inside.py")
    _, record = probed_and_measured(real, inside)
    assert record.measurement.step_s > 0.03
    assert record.measurement.compute_s > 0.03


KEEPS_WORKERS = """
    import time, torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    def get_ready(number):
        time.sleep(0.4)

    class Loader(DataLoader):
        def __del__(self):
            time.sleep(0.4)

    def main():
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        data = TensorDataset(torch.ones(32, 4), torch.ones(32, 1))
        loader = Loader(data, batch_size=4, num_workers=1, persistent_workers=True, worker_init_fn=get_ready)
        for epoch in range(8):
            for x, y in loader:
                time.sleep(0.004)
                loss = (model(x) - y).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    if __name__ == "__main__":
        main()
"""


def test_what_begins_and_ends_with_a_run_is_in_no_step_when_the_script_runs_again(real, write):
    _, record = probed_and_measured(real, write(KEEPS_WORKERS))
    found = record.measurement
    assert "script_rerun" in found.flags
    assert max(block.wall_s / block.steps for block in found.blocks) < 4 * found.step_s
    assert found.mean_step_s < 1.3 * found.step_s
    assert found.wait_s <= found.step_s


MADE_ANEW = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(60):
        data = TensorDataset(torch.ones(32, 4), torch.ones(32, 1))
        for step, (x, y) in enumerate(DataLoader(data, batch_size=4, shuffle=True)):
            loss = (model(x) - y).square().mean()
            loss.backward()
            if (step + 1) % {batches} == 0:
                optimizer.step()
                optimizer.zero_grad()
"""


@pytest.mark.parametrize("batches", [1, 4])
def test_a_loader_that_is_made_anew_for_each_epoch_is_one(real, write, batches):
    facts = real.probe(write(MADE_ANEW.format(batches=batches)), unmodified=True)
    found = facts.script
    assert (found.loader, found.batches_per_update, found.updates_per_step) == (0, batches, 1)


def test_waiting_for_data_is_told_from_compute(real, write):
    script = write(LOADER.format(load=0.01, epochs=100, inside="pass", after="pass"))
    facts, record = probed_and_measured(real, script)
    found = record.measurement
    assert facts.sample_load_s > 0.01
    assert found.wait_s > 0.04
    assert found.compute_s < 0.02


def test_a_config_is_applied_at_the_loader_and_the_model(real):
    script = PROGRAMS / "digits.py"
    facts = real.probe(script, unmodified=True)
    config = {**facts.baseline, "batch_size": 48, "num_workers": 1, "precision": "bf16", "channels_last": True}
    record = real.run(
        script, config=config, unmodified=True, found=facts.script, dataset_length=facts.dataset_length, small_batch=8
    )
    assert record.outcome is Outcome.OK, record.failure
    found = record.measurement
    assert found.samples_per_step == pytest.approx(42, rel=0.05)  # 168 in four batches
    assert found.samples_per_epoch == 168
    assert found.small_batch == 8
    losses = found.losses
    assert all(loss == loss for loss in losses)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("import torch\nraise KeyError('weights')", "KeyError", "raise KeyError('weights')"),
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()",
         "did not accept its arguments", "p.parse_args()"),
        ("import sys\nsys.exit('no data')", "called sys.exit: no data", "sys.exit('no data')"),
        ("print('nothing to train')", "ended without an update", ""),
        ("import torch\nw = torch.ones(2, requires_grad=True)\nfor _ in range(3):\n    w.sum().backward()\n"
         "    w.data.add_(w.grad, alpha=-0.1)", "no update of an optimizer of torch.optim", ""),
    ],
)  # fmt: skip
def test_a_script_that_cannot_be_run_says_so_with_its_own_line(real, write, text, says, line):
    failure = real.refusal(write(text), unmodified=True)
    assert says in failure.message
    assert line in failure.traceback
    assert "scripting/" not in failure.traceback


def test_a_failure_in_the_loop_carries_the_scripts_own_traceback(real, write):
    body = "if step == 5 and epoch == 2: raise ValueError('bad batch')"
    script = write(LOADER.format(load=0, epochs=4, inside=body, after="pass"))
    facts = real.probe(PROGRAMS / "digits.py", unmodified=True)
    record = real.run(script, config={"batch_size": 4}, unmodified=True, found=facts.script, dataset_length=32)
    assert record.outcome is Outcome.ERROR
    assert "ValueError: bad batch" in record.failure.message
    assert "train.py" in record.failure.traceback
    assert "scripting/" not in record.failure.traceback


def test_a_script_too_short_to_measure_says_so(real, write):
    script = write(LOADER.format(load=0, epochs=1, inside="raise SystemExit(0)", after="pass"))
    failure = real.refusal(script, unmodified=True)
    assert "too few to measure" in failure.message


def test_a_batch_size_that_the_script_cannot_change_does_not_apply(real, write):
    script = write(LOADER.format(load=0, epochs=9, inside="x.t() @ torch.zeros(4, 4)", after="pass"))
    facts = real.probe(script, unmodified=True)
    assert "fails on a batch of another size" in facts.fixed_batch


ENDED_BY_A_LOOK = """
    import torch
    from torch import library, nn
    from torch.utils.data import DataLoader, Dataset

    library.define("doubling::double", "(Tensor x) -> Tensor")  # refused where the script is run again

    class Data(Dataset):
        def __len__(self):
            return 400

        def __getitem__(self, index):
            return torch.ones(4), torch.ones(4)

    class Once(nn.Linear):
        passed = False

        def forward(self, x):
            if self.passed:
                raise RuntimeError("twice in one step")  # as where it is recomputed
            self.passed = True
            return super().forward(x)

    def main():
        model = nn.Sequential(Once(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
        for epoch in range(100):
            for x, y in DataLoader(Data(), batch_size=8, shuffle=True):
                model[0].passed = False
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()

    if __name__ == "__main__":
        main()
"""


def test_what_a_look_that_ends_the_script_leaves_unsaid_is_asked_before(real, write):
    facts = real.probe(write(ENDED_BY_A_LOOK), unmodified=True)
    assert "fails" in facts.chain_refused
    assert facts.optimizer == "SGD"
    assert "fused" in facts.refused["optimizer_impl"]
    assert facts.fork_only is None
    assert facts.fixed_batch is None


ELSEWHERE = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    def collate(samples):
        x, y = torch.utils.data.default_collate(samples)
        return x, y, torch.empty(len(x), device="meta")  # stands for an accelerator

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.ones(32, 4), torch.ones(32, 1))
    for epoch in range(1000):
        for x, y, _ in DataLoader(data, batch_size=4, shuffle=True{arguments}):
            (model(x) - y).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_batches_that_the_loader_gives_on_another_device_are_seen(real, write, elsewhere):
    text = ELSEWHERE.format(arguments=", collate_fn=collate" if elsewhere else "")
    if not elsewhere:
        text = text.replace("for x, y, _ in", "for x, y in")
    assert real.probe(write(text), unmodified=True).on_accelerator is elsewhere


PARTS = """
    import itertools, torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, get_worker_info

    class Opened(Dataset):
        file = None
        def open(self):
            self.file = "opened"
        def __getitem__(self, key):
            return torch.ones(4) + int(str(key).removeprefix("id")), torch.ones(1)

    class Counted(Opened):
        def __len__(self):
            return 30

    class Endless:
        def __iter__(self):
            return (f"id{{n % 30}}" for n in itertools.count())

    def begin(worker):
        get_worker_info().dataset.open()

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader({data}, batch_size=4, num_workers=1, worker_init_fn=begin)
    for epoch in range(1000):
        for x, y in loader:
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("data", "length"),
    [
        ("Counted(), shuffle=True", 30),
        ("Counted(), sampler=Endless()", None),
        ("Opened(), sampler=range(30)", 30),
    ],
)
def test_what_the_script_asks_its_dataset_for_is_all_that_it_is_asked_for(real, write, data, length):
    facts, record = probed_and_measured(real, write(PARTS.format(data=data)))
    assert facts.dataset_length == length
    assert record.outcome is Outcome.OK, record
