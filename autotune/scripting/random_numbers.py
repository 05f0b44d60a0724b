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
    states = random.getstate(), np.random.get_state()
    devices = [] if device.type == "cpu" else [device.torch]
    with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
