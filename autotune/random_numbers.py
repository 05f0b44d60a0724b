"""The random numbers of a training, kept from what is drawn beside it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from autotune.device import Device


@contextmanager
def kept_random_numbers(device: Device | None = None) -> Iterator[None]:
    """Set the generators that data and models draw from back to where they were; the device's, too, where given."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    on_device = None if device is None else device.random_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if device is not None and on_device is not None:
            device.set_random_state(on_device)
