"""The random numbers of a step, whatever the script draws before it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from autotune.device import Device


@contextmanager
def kept_random_numbers(device: Device) -> Iterator[None]:
    """Set the generators that data and models draw from back to where they were, in the end."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state(), device.random_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        device.set_random_state(states[3])
