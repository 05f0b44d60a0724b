"""What the probe finds out about loading."""

from __future__ import annotations

import time

from autotune.trials.probe_data import SHAPES_SEEN, take_batches


def test_the_first_batch_of_a_cold_loader_is_not_what_one_takes():
    def batches():
        time.sleep(0.3)
        yield from range(100)

    found, load_s = take_batches(batches())
    assert found == list(range(SHAPES_SEEN))
    assert load_s < 0.05


def test_one_batch_is_all_there_is_to_go_by():
    def batches():
        time.sleep(0.05)
        yield 0

    found, load_s = take_batches(batches())
    assert (found, load_s >= 0.05) == ([0], True)
    assert take_batches([]) == ([], 0.0)
