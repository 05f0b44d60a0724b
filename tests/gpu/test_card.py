"""The seam on a real card: cap, retries, peaks, clock edges, places that wait for the device."""

from __future__ import annotations

import time

import pytest
import torch

from autotune.outcomes import classify_error
from autotune.records import Outcome

pytestmark = pytest.mark.gpu

MIB, GIB = 1 << 20, 1 << 30


def block(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda:0")


def test_what_goes_beyond_the_cap_fails_and_what_comes_after_does_not(card):
    card.cap_memory(GIB)
    held = block(600 * MIB)
    with pytest.raises(torch.OutOfMemoryError) as failed:
        block(600 * MIB)
    assert classify_error(failed.value).outcome is Outcome.OUT_OF_MEMORY
    assert card.peaks().reserved <= GIB
    del held
    assert block(900 * MIB).numel() == 900 * MIB


def test_a_cache_that_has_to_be_emptied_counts_as_a_retry(card):
    card.cap_memory(GIB)
    held = block(600 * MIB)
    del held
    before = card.retries()
    block(800 * MIB)
    assert card.retries() > before


def test_the_steady_peak_forgets_the_workspace_of_the_first_step_and_the_lifetime_does_not(card):
    before = card.peaks().allocated
    workspace = block(500 * MIB)
    del workspace
    card.synchronize()
    card.reset_peaks()
    held = block(100 * MIB)
    assert card.peaks().allocated - before < 200 * MIB
    assert card.lifetime_peaks().allocated - before >= 500 * MIB
    assert card.lifetime_peaks().reserved >= card.peaks().reserved
    del held


def test_without_synchronisation_the_time_would_be_wrong_by_more_than_half(card):
    square = torch.randn(4096, 4096, device="cuda:0")
    for _ in range(3):
        square @ square
    card.synchronize()
    began = time.perf_counter()
    for _ in range(50):
        square @ square
    host_s = time.perf_counter() - began
    card.synchronize()
    assert host_s < 0.5 * (time.perf_counter() - began)


def test_synchronising_each_step_costs_time_that_no_training_loop_pays(card, record_property):
    layers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(20)]).to("cuda:0")
    inputs = torch.randn(64, 256, device="cuda:0")

    def run(each: bool) -> float:
        card.synchronize()
        began = time.perf_counter()
        for _ in range(100):
            layers(inputs).sum().backward()
            if each:
                card.synchronize()
        card.synchronize()
        return (time.perf_counter() - began) / 100

    run(False)
    pairs = [(run(True), run(False)) for _ in range(5)]
    ratio = sorted(each / once for each, once in pairs)[2]
    record_property("per_step_over_per_block", round(ratio, 3))
    assert ratio > 0.95


def test_the_places_that_wait_for_the_card_are_named(card):
    values = torch.ones(8, device="cuda:0")
    with card.synchronisations() as found:
        values.sum().item()
    assert {file for file, _ in found} == {__file__}
    with card.synchronisations() as found:
        values.sum()
    assert found == []


def test_what_the_card_says_of_itself(card):
    assert card.is_accelerator
    assert card.name
    assert card.total_bytes() >= card.free_bytes() > 0
    assert card.capability() is None or card.capability() >= (3, 5)
    assert card.id == "cuda:0"
