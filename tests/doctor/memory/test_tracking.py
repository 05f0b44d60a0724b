from __future__ import annotations

import torch
from torch import nn

from autotune.doctor.memory.account import ACTIVATIONS, GRADIENTS, INPUTS, OPTIMIZER, PARAMETERS, WORKSPACE
from autotune.doctor.memory.tracking import Tracker

WIDTH, BATCH = 64, 512


def tracked(model, optimizer, step):
    batch = torch.randn(BATCH, WIDTH)
    step(batch)  # the optimizer's state is there
    tracker = Tracker(model, [optimizer], batch)
    with tracker.following():
        step(batch)
    return tracker


def test_every_part_of_a_step_has_its_bytes():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    tracker = tracked(model, optimizer, step)
    weights = sum(item.numel() for item in model.parameters()) * 4
    layer = BATCH * WIDTH * 4
    peak, last = tracker.peak.parts, tracker.moments[-1].parts
    assert peak[PARAMETERS] == weights
    assert 2 * weights <= peak[OPTIMIZER] <= 2 * weights + 64  # and counts of steps
    assert peak[INPUTS] == layer
    assert max(moment.parts.get(GRADIENTS, 0) for moment in tracker.moments) == weights
    forward = [moment.parts.get(ACTIVATIONS, 0) for moment in tracker.moments if moment.phase == "forward"]
    assert max(forward) == 2 * layer  # the sigmoid's output, and what is squared
    assert last.get(ACTIVATIONS, 0) == 0
    assert sum(tracker.peak_modules.values()) == peak[ACTIVATIONS] > 0
    assert set(tracker.peak_modules) <= {"1", "2"}  # the sigmoid's output, and the last layer's, which is squared
    assert {moment.phase for moment in tracker.moments} == {"forward", "backward", "optimizer"}


def test_what_is_not_kept_is_workspace():
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch):
        with torch.no_grad():
            noise = batch * 2 + 1
        (model(noise)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    tracker = tracked(model, optimizer, step)
    assert tracker.peak.parts[WORKSPACE] >= BATCH * WIDTH * 4
    assert tracker.peak.parts.get(OPTIMIZER, 0) == 0
    assert max(moment.parts.get(ACTIVATIONS, 0) for moment in tracker.moments) == BATCH * WIDTH * 4  # noise


def test_a_step_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    tracked(model, optimizer, step)
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert all(not item._post_accumulate_grad_hooks for item in model.parameters())
    assert not optimizer._optimizer_step_pre_hooks
