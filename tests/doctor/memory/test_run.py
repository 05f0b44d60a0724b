"""The search for a batch size that fits, on looks that a line answers."""

from __future__ import annotations

import pytest

from autotune.doctor.look import Seen
from autotune.doctor.memory.account import Account, Moment
from autotune.doctor.memory.run import account_for
from autotune.errors import AutotuneError, DoesNotFit, ScriptError
from autotune.records import Outcome

MIB = 1 << 20


class Line:
    """Looks whose peak is fixed + each x batch; beyond `dies` they run out of memory."""

    def __init__(self, fixed, each, *, dies=10**9, length=None, start=32, bend=0.0, fixed_batch=""):
        self.fixed, self.each, self.dies, self.length, self.start = fixed, each, dies, length, start
        self.bend, self.fixed_batch = bend, fixed_batch
        self.ran = []

    def at(self, kind, name, config, baseline):
        return self.attempt(kind, name, {"batch_size": self.start, **config}).result

    def attempt(self, kind, name, config, baseline=None):
        size = config["batch_size"]
        self.ran.append(size)
        needed = int(self.fixed + self.each * size + self.bend * size * size)
        if size > self.dies:
            return Seen(outcome=Outcome.OUT_OF_MEMORY, result=None, error=DoesNotFit("no"))
        account = Account(
            config=config,
            device="cpu",
            device_name="",
            batch_size=size,
            fixed_batch=self.fixed_batch,
            dataset_length=self.length,
            peak=Moment(phase="forward", parts={}),
            needed=needed,
        )
        return Seen(outcome=Outcome.OK, result=account, error=AutotuneError(""))


def test_the_largest_is_predicted_from_two_and_then_run():
    line = Line(100 * MIB, MIB)
    fit = account_for(line, limit=500 * MIB).fit
    assert fit.batch_size == 400
    assert line.ran == [32, 64, 400]
    assert fit.tried[-1].predicted == fit.tried[-1].needed == 500 * MIB
    assert fit.sample_bytes == MIB


def test_a_line_that_bends_is_followed():
    line = Line(100 * MIB, MIB, bend=0.002 * MIB)
    fit = account_for(line, limit=800 * MIB).fit
    best = next(one for one in fit.tried if one.batch_size == fit.batch_size)
    assert 0.9 * 800 * MIB < best.needed <= 800 * MIB
    assert len(line.ran) <= 6


def test_sizes_that_run_out_of_memory_are_bounds():
    fit = account_for(Line(100 * MIB, MIB, dies=200), limit=500 * MIB).fit
    assert 100 <= fit.batch_size <= 200


def test_a_smaller_one_is_found_where_todays_does_not_fit():
    fit = account_for(Line(100 * MIB, MIB, start=64), limit=124 * MIB).fit
    assert fit.batch_size == 24


def test_the_dataset_is_a_bound():
    fit = account_for(Line(100 * MIB, MIB, length=100), limit=1000 * MIB).fit
    assert fit.batch_size == 100
    assert "dataset" in fit.bound


def test_memory_that_does_not_grow_ends():
    line = Line(100 * MIB, 0)
    assert account_for(line, limit=500 * MIB).fit.batch_size >= 64
    assert len(line.ran) <= 6


def test_a_limit_that_nothing_fits_is_one_message():
    with pytest.raises(DoesNotFit, match=r"nothing fits into 50\.0 MiB: a batch of 1 needs"):
        account_for(Line(100 * MIB, MIB), limit=50 * MIB)


def test_a_failure_that_is_not_memory_is_told():
    line = Line(MIB, MIB)
    failing = line.attempt

    def attempt(kind, name, config, baseline=None):
        if config["batch_size"] == 64:
            return Seen(outcome=Outcome.ERROR, result=None, error=ScriptError("train.py: only 32"))
        return failing(kind, name, config)

    line.attempt = attempt
    with pytest.raises(ScriptError, match="only 32"):
        account_for(line, limit=500 * MIB)


def test_a_batch_size_without_effect_is_not_looked_for():
    report = account_for(Line(MIB, MIB, fixed_batch="the dataset yields its batches itself"), limit=500 * MIB)
    assert report.fit is None
    assert "yields its batches itself" in report.notes[0]
