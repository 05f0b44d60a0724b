"""What the probe finds out about loading."""

from __future__ import annotations

import time

import pytest
import torch

from autotune.probing.data import SHAPES_SEEN, on_accelerator, take_batches


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


@pytest.mark.parametrize(("devices", "found"), [(("cpu", "cpu"), False), (("cpu", "meta"), True), ((), False)])
def test_a_tensor_that_is_not_in_host_memory_is_seen_in_any_batch(devices, found):
    batch = {"parts": [torch.ones(2, device=device) for device in devices], "name": "text"}
    assert on_accelerator(batch) is found
