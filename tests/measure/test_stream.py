"""Batches epoch after epoch: how many samples each holds, and what a restart costs."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from autotune.errors import WorkloadError
from tests.measure.measuring import FakeClock, Flow, make_workload, open_session


class Epochs:
    """A loader of one's own: `length` batches an epoch, whatever it says; each start takes `start_s`."""

    def __init__(self, length: int, says: int | None = None, clock: FakeClock | None = None, start_s: float = 0.0):
        self.length, self.says, self.clock, self.start_s = length, says, clock, start_s

    def __iter__(self) -> Iterator[Any]:
        if self.clock is not None:
            self.clock.sleep(self.start_s)
        for _ in range(self.length):
            yield torch.zeros(8, 4), torch.zeros(8, dtype=torch.long)
        if self.clock is not None:
            self.clock.sleep(self.start_s / 2)  # its end, as of worker processes

    def __len__(self) -> int:
        if self.says is None:
            raise TypeError("nobody knows")
        return self.says


def samples(session: Any, batches: int) -> list[int]:
    return [session.stream.next().samples for _ in range(batches)]


def test_b5_a_ragged_last_batch_counts_as_what_it_is():
    session = open_session(make_workload(length=20))
    assert samples(session, 7) == [8, 8, 4, 8, 8, 4, 8]
    assert (session.stream.steps_per_epoch, session.stream.samples_per_epoch) == (3, 20)


def test_drop_last_counts_full_batches_alone():
    assert samples(open_session(make_workload(length=20, drop_last=True)), 5) == [8] * 5


def test_c51_a_batch_larger_than_the_data_counts_the_data():
    assert samples(open_session(make_workload(length=10), batch_size=16), 2) == [10, 10]


def test_c51_no_batch_at_all_is_said():
    session = open_session(make_workload(length=10, drop_last=True), batch_size=16)
    with pytest.raises(WorkloadError, match="0 steps"):
        session.stream.next()


def test_a_stream_of_unknown_length_is_counted_by_what_comes():
    session = open_session(make_workload(dataset=lambda: Flow(20)))
    assert session.stream.left_in_epoch() is None
    assert samples(session, 5) == [8, 8, 4, 8, 8]
    assert (session.stream.steps_per_epoch, session.stream.samples_per_epoch) == (3, 20)


def test_count_samples_has_the_last_word():
    session = open_session(make_workload(count_samples=lambda batch: 3 * len(batch[1])))
    assert samples(session, 2) == [24, 24]


@pytest.mark.parametrize("told", [8, 8.0, np.int64(8), torch.tensor(8)])
def test_whatever_holds_a_whole_number_is_a_count(told):
    assert samples(open_session(make_workload(count_samples=lambda batch: told)), 1) == [8]


@pytest.mark.parametrize("told", [0, -5, 7.5, float("nan"), float("inf"), None, "many", torch.ones(2)])
def test_a_count_that_cannot_be_is_said(told):
    session = open_session(make_workload(count_samples=lambda batch: told))
    with pytest.raises(WorkloadError, match=f"count_samples returned {re.escape(reprlib.repr(told))} for a batch"):
        session.stream.next()


def test_a_sum_that_happens_to_have_the_batch_size_first_is_not_taken_for_samples():
    """Tokens a batch, counted by the user: only tensors that follow the batch size are trusted, and only downwards."""

    def collate(items: list[Any]) -> Any:
        return torch.zeros(sum(range(len(items))), 4), torch.zeros(len(items), dtype=torch.long)

    session = open_session(make_workload(dataset=lambda: Flow(20), collate_fn=collate))
    assert samples(session, 3) == [8, 8, 4]


def test_a_loader_of_ones_own_counts_what_was_asked_for():
    session = open_session(make_workload(loader=lambda batch_size, **options: Epochs(3), dataset=None))
    assert samples(session, 7) == [8] * 7


@pytest.mark.parametrize("says", [2, 9])
def test_a_wrong_length_is_put_right_by_the_first_epoch(says):
    session = open_session(make_workload(loader=lambda batch_size, **options: Epochs(5, says), dataset=None))
    assert session.stream.steps_per_epoch == says
    samples(session, 6)
    assert session.stream.steps_per_epoch == 5


def test_a_restart_costs_the_end_of_the_last_epoch_too():
    clock = FakeClock()
    loader = Epochs(3, 3, clock, start_s=4.0)
    session = open_session(make_workload(loader=lambda batch_size, **options: loader, dataset=None), clock=clock)
    fetched = [session.stream.next() for _ in range(4)]
    assert session.stream.first_batch_s == 4.0
    assert [item.boundary_s for item in fetched] == [None, None, None, 6.0]
    assert fetched[3].wait_s == 6.0
    assert session.stream.boundaries == [6.0]


def test_persistent_workers_serve_the_next_epoch():
    session = open_session(make_workload(length=16), num_workers=1, persistent_workers=True)
    host = session.training.loader.host
    assert isinstance(host, DataLoader)
    session.stream.next()
    first = host._iterator
    samples(session, 2)
    assert host._iterator is first
