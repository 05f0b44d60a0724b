"""Scripts whose training cannot be held or followed: each is refused in one message that names the way out."""

from __future__ import annotations

import pytest
import torch

from autotune.facts import ScriptFacts
from autotune.records import Outcome

TRAINS = """
    import multiprocessing, os, threading, time, signal
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def data():
        return TensorDataset(torch.ones(32, 4), torch.ones(32, 1))

    def loader():
        return DataLoader(data(), batch_size=4, shuffle=True)

    def step(x, y):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()

    def work(epochs=1000):
        for epoch in range(epochs):
            for x, y in loader():
                step(x, y)

"""
THREADS = {
    "joined": "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n",
    "waited for without an end": "threading.Thread(target=work).start()\nthreading.Event().wait()\n",
    "with the signal taken": (
        "signal.signal(signal.SIGURG, signal.SIG_IGN)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    ),
}

PROCESSES = {
    "forked": "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start()\nchild.join()\n",
    "forked by hand": "child = os.fork()\nif not child: work()\nos.waitpid(child, 0)\n",
    "with the signal taken": (
        "signal.signal(signal.SIGURG, signal.SIG_IGN)\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start()\nchild.join()\n"
    ),
    "spawned": "import torch.multiprocessing as mp\nmp.spawn(work, nprocs=2)\n",
    "forked by torch": (
        "from torch.multiprocessing import start_processes\nstart_processes(work, nprocs=2, start_method='fork')\n"
    ),
}


@pytest.fixture
def train(write):
    """Write a script that ends as given; return its path."""

    def write_it(end):
        return write(TRAINS + "".join(f"    {line}\n" for line in end.splitlines()))

    return write_it


@pytest.mark.parametrize("name", THREADS)
def test_training_in_a_thread_is_refused_at_once(real, train, name):
    failure = real.refusal(train(THREADS[name]), unmodified=True)
    assert "trains in a thread other than the main one" in failure.message
    assert "Workload" in failure.message
    assert "greenlet" not in real.log_text


def test_a_thread_that_begins_to_train_after_the_probe_is_refused_too(real, train):
    script = train("work(2)\nthread = threading.Thread(target=work)\nthread.start()\nthread.join()\n")
    record = real.run(script, config={"batch_size": 4}, unmodified=True, found=ScriptFacts(loader=0), dataset_length=32)
    assert record.outcome is Outcome.ERROR
    assert "trains in a thread other than the main one" in record.failure.message


@pytest.mark.parametrize("name", PROCESSES)
def test_training_in_processes_of_its_own_is_refused_at_once(real, train, name):
    failure = real.refusal(train(PROCESSES[name]), unmodified=True, timeout_s=30.0)
    assert "trains in a process" in failure.message or "train.py:27 trains in processes" in failure.message
    assert "call itself what trains" in failure.message
    assert "greenlet" not in real.log_text


def test_a_process_that_begins_to_train_after_the_probe_is_refused_too(real, train):
    script = train("work(2)\n" + PROCESSES["forked"])
    record = real.run(script, config={"batch_size": 4}, unmodified=True, found=ScriptFacts(loader=0), dataset_length=32)
    assert record.outcome is Outcome.ERROR
    assert "trains in a process" in record.failure.message


def test_training_that_cannot_be_seen_in_other_processes_is_named(real, train):
    spawned = "child = multiprocessing.get_context('spawn').Process(target=work, args=(2,))"
    script = train(f"if __name__ == '__main__':\n    {spawned}\n    child.start()\n    child.join()\n")
    failure = real.refusal(script, unmodified=True)
    assert "trains in processes that it starts (1) is not seen" in failure.message


PHASES = """
work(2)
full = DataLoader(data(), batch_size=4, shuffle=True)
for epoch in range(1000000):
    for x, y in full:
        step(x, y)
"""


def test_a_script_that_goes_on_with_another_loader_is_left(real, train):
    script = train(PHASES)
    record = real.run(script, config={"batch_size": 4}, unmodified=True, found=ScriptFacts(loader=0), dataset_length=32)
    assert record.outcome is Outcome.ERROR
    lines = script.read_text().splitlines()
    first, other = (1 + next(i for i, line in enumerate(lines) if text in line) for text in ("return DataL", "full ="))
    assert f"goes on training with the loader of train.py:{other}" in record.failure.message
    assert f"that of train.py:{first}" in record.failure.message
    assert "autotune init" in record.failure.message


def test_a_script_that_goes_on_without_a_loader_is_left(real, train):
    script = train("work(2)\nwhile True:\n    step(torch.ones(4, 4), torch.ones(4, 1))\n")
    record = real.run(script, config={"batch_size": 4}, unmodified=True, found=ScriptFacts(loader=0), dataset_length=32)
    assert "goes on training without a DataLoader" in record.failure.message


def test_a_script_that_goes_on_with_kept_batches_is_told_what_keeps_them(real, train):
    script = train("import itertools\nfor x, y in itertools.cycle(loader()):\n    step(x, y)\n")
    record = real.run(script, config={"batch_size": 4}, unmodified=True, found=ScriptFacts(loader=0), dataset_length=32)
    assert "itertools.cycle(loader) keeps all batches" in record.failure.message


BY_ITSELF = {
    "over a loader": "for epoch in range(1000000):\n    for x, y in loader():\n        step(x, y)",
    "without one": "while True:\n    step(torch.ones(4, 4), torch.ones(4, 1))",
}


@pytest.mark.parametrize("loop", BY_ITSELF)
def test_a_script_that_changes_its_parameters_itself_is_left_without_waiting_for_its_end(real, train, loop):
    script = train(BY_ITSELF[loop])
    script.write_text(script.read_text().replace("optimizer.step()", "by_hand()").replace("def step", BY_HAND))
    failure = real.refusal(script, unmodified=True, timeout_s=30.0)
    assert "no update of an optimizer of torch.optim" in failure.message


BY_HAND = """def by_hand():
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-1e-3)

def step"""


OF_TENSORS = {
    "changed in place": "with torch.no_grad():\n        w -= 0.1 * w.grad\n    w.grad = None",
    "made anew": "w = (w.detach() - 0.1 * w.grad).requires_grad_()",
    "given other data": "w.data = w.data - 0.1 * w.grad\n    w.grad.zero_()",
}


@pytest.mark.parametrize("update", OF_TENSORS)
def test_a_script_that_trains_tensors_of_no_module_is_left_without_waiting_for_its_end(real, write, update):
    script = write(f"""
import torch
w = torch.randn(4, 3, requires_grad=True)
while True:
    torch.nn.functional.cross_entropy(torch.rand(8, 4) @ w, torch.randint(3, (8,))).backward()
    {OF_TENSORS[update]}
""")
    failure = real.refusal(script, unmodified=True, timeout_s=30.0)
    assert "no update of an optimizer of torch.optim" in failure.message


def test_a_script_that_accumulates_over_many_batches_is_not_taken_for_one_that_does(real, train):
    script = train("number = 0\nfor epoch in range(1000000):\n    for x, y in loader():\n        step(x, y)")
    text = script.read_text().replace("optimizer.zero_grad()", "global number; number += 1")
    script.write_text(text.replace("optimizer.step()", "if number % 60 == 0: optimizer.step()"))
    assert real.probe(script, unmodified=True).script.loader == 0


RESUMES = """
from pathlib import Path
last = Path(__file__).with_name("last.pt")
if last.exists():
    work = lambda epochs: None
work(2)
torch.save(model.state_dict(), last)
"""
DONE = """
state = torch.load(__file__.replace("train.py", "last.pt"))
work(state["epochs"] - 2)
"""


def test_a_script_that_goes_on_from_its_own_checkpoint_is_told_as_that(real, train):
    failure = real.refusal(train(RESUMES), unmodified=True)
    assert "made none when it was run again" in failure.message
    assert "its own checkpoint" in failure.message


@pytest.mark.parametrize(
    ("end", "found"),
    [(DONE, "done (it loaded last.pt)?"), ("raise SystemExit", "done, by a checkpoint of its own, say?")],
)
def test_a_script_that_finds_its_training_done_is_told_how_to_let_it_begin_anew(real, train, tmp_path, end, found):
    torch.save({"epochs": 2}, tmp_path / "last.pt")
    failure = real.refusal(train(end), unmodified=True)
    assert "ended without an update" in failure.message
    assert found in failure.message
    assert "begin anew" in failure.message
