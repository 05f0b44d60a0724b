"""Which loader is the training one made anew, and which is another one."""

from __future__ import annotations

import pytest

from autotune.config import Config
from autotune.records import Outcome
from autotune.scripting.run import AppliedConfig, run_script
from tests.scripting.test_refusals import train  # noqa: F401
from tests.scripting.test_trials import probed_and_measured

ANEW_ELSEWHERE = """
batches = iter(loader())
for number in range(1000000):
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader())
        x, y = next(batches)
    step(x, y)
"""
IN_TURN = """
{before}
for epoch in range(1000000):
    for (x, y), (u, v) in zip({first}, {second}):
        step(torch.cat([x, u]), torch.cat([y, v]))
"""
PAIRS = {
    "made by one function": ("pass", "loader()", "loader()"),
    "over one dataset": ("kept = data()", "DataLoader(kept, batch_size=4)", "DataLoader(kept, batch_size=4)"),
    "made once": ("a, b = loader(), loader()", "a", "b"),
    "in one order": ("a = loader(); b = DataLoader(data(), batch_sampler=a.batch_sampler)", "a", "b"),
    "given one order": (
        "order = torch.utils.data.BatchSampler(range(32), 4, False); kept = data()",
        "DataLoader(kept, batch_sampler=order)",
        "DataLoader(kept, batch_sampler=order)",
    ),
}
SPLITS = """
class Part(TensorDataset):
    def __init__(self, split):
        super().__init__(torch.ones(32, 4), torch.ones(32, 1))
        self.split = split

def loader_of(split):
    return DataLoader(Part(split), batch_size=4, shuffle=True)

for epoch in range(1000000):
    for x, y in loader_of("train"):
        step(x, y)
    for x, y in loader_of("test"):
        assert len(x) == 4, "the config is not for this one"
"""


def test_a_loader_that_its_function_makes_anew_elsewhere_is_the_training_one(real, train):  # noqa: F811
    facts, record = probed_and_measured(real, train(ANEW_ELSEWHERE))
    assert facts.script.loader == 0
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.steps_per_epoch == 8


@pytest.mark.parametrize("name", PAIRS)
def test_of_two_loaders_that_are_read_in_turn_one_is_held(real, train, name):  # noqa: F811
    before, first, second = PAIRS[name]
    facts, record = probed_and_measured(real, train(IN_TURN.format(before=before, first=first, second=second)))
    assert facts.script.loader == 0
    assert facts.script.batches_per_update == 1
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.steps_per_epoch == 8


EVALUATION_FIRST = """
for epoch in range(1000000):
    test, train = loader(), (
        loader()
    )
    for x, y in train:
        step(x, y)
    with torch.no_grad():
        for x, y in test:
            model(x)
"""


def test_an_evaluation_on_like_data_by_the_same_function_is_no_training(real, train):  # noqa: F811
    facts, record = probed_and_measured(real, train(EVALUATION_FIRST))
    assert facts.script.loader == 1
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.steps_per_epoch == 8


def test_one_function_may_make_the_loaders_of_training_and_of_evaluation(real, train):  # noqa: F811
    facts = real.probe(train(SPLITS), unmodified=True)
    record = real.run(train(SPLITS), config={"batch_size": 8}, unmodified=True, found=facts.script, dataset_length=32)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.steps_per_epoch == 4


PREPARED = """
class Prepared(DataLoader):  # as accelerate makes of a script's loader; reads one batch ahead
    def __iter__(self):
        batches = super().__iter__()
        current = next(batches)
        for following in batches:
            yield current
            current = following
        yield current

def prepared():
    given = loader()
    return Prepared(given.dataset, batch_sampler=given.batch_sampler)

"""
PREPARED_LOOPS = {
    "once": """
training, evaluation = (prepared() for _ in range(2))
for epoch in range(1000000):
    for x, y in training:
        step(x, y)
    with torch.no_grad():
        for x, y in evaluation:
            assert len(x) == 4, "the config is not for this one"
""",
    "for each epoch": """
for epoch in range(1000000):
    for x, y in prepared():
        step(x, y)
""",
}

PREPARED_LOOPS["after one that failed"] = """
failed = DataLoader.__new__(DataLoader)
try:
    failed.__init__(data(), batch_size=-1)
except ValueError:
    pass
""" + PREPARED_LOOPS["once"]


@pytest.mark.parametrize("name", PREPARED_LOOPS)
def test_the_batch_size_is_that_of_the_loader_whose_batch_sampler_another_takes_over(real, train, name):  # noqa: F811
    script = train(PREPARED + PREPARED_LOOPS[name])
    facts = real.probe(script, unmodified=True)
    assert facts.script.loader == (name == "after one that failed")
    assert (facts.fixed_batch, facts.baseline["batch_size"], facts.dataset_length) == (None, 4, 32)
    record = real.run(script, config={"batch_size": 8}, unmodified=True, found=facts.script, dataset_length=32)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.samples_per_step == 8
    assert record.measurement.steps_per_epoch == 4


BY_PHASE = """
parts = {"train": data(), "val": data()}
for epoch in range(1000000):
    for phase in parts:
        with torch.set_grad_enabled(phase == "train"):
            for x, y in DataLoader(parts[phase], batch_size=4, shuffle=phase == "train"):
                if phase == "train":
                    step(x, y)
                else:
                    assert len(x) == 4, "the config is not for this one"
"""
GROWING = """
for size in (4, 8):
    now = DataLoader(data(), batch_size=size, shuffle=True)
    for epoch in range(8):
        for x, y in now:
            assert len(x) == size, "the config is not for this one"
            step(x, y)
"""


def test_one_line_may_make_the_loaders_of_training_and_of_evaluation(real, train):  # noqa: F811
    facts = real.probe(train(BY_PHASE), unmodified=True)
    assert facts.script.loader == 0
    record = real.run(train(BY_PHASE), config={"batch_size": 8}, unmodified=True, found=facts.script, dataset_length=32)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.steps_per_epoch == 4


def test_the_baseline_of_a_script_whose_batches_grow_is_the_script(real, train):  # noqa: F811
    _, record = probed_and_measured(real, train(GROWING))
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.samples_per_step == 4


@pytest.mark.parametrize(("text", "left"), [(BY_PHASE.replace("range(1000000)", "range(2)"), False), (GROWING, True)])
def test_a_run_leaves_what_is_not_the_training_loader_made_anew_and_says_so(train, text, left):  # noqa: F811
    notes = []
    applied = AppliedConfig(Config(batch_size=16), 0, lambda _: None, notes.append)
    told = text.replace("assert len(x) == size", "assert len(x) == (16 if size == 4 else 8)")
    assert run_script(train(told), (), applied) == 0
    assert "batch_size" in applied.applied
    assert [("with batch_size=8 is left" in note) for note in notes] == [True] * left
