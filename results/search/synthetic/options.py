"""Options that exist only in these instances, and the context that all options are asked with.

They show that the sampler needs nothing but what an option says of itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from autotune.config import Config
from autotune.facts import Facts
from autotune.options import OPTIONS
from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.space import Space
from autotune.plan import Plan

CORES = 8
BASE_BATCH = 32
CHOICES: dict[str, tuple[Value, ...]] = {
    "batch_size": (8, 16, 24, 32, 48, 64, 96, 128, 192, 256),
    "precision": ("fp32", "bf16", "fp16"),
    "channels_last": (False, True),
    "checkpoint_segments": (0, 6, 12),
    "toy_compile": ("off", "default", "overhead"),
    "pin_memory": (False, True),
    "num_workers": (0, 1, 2, 4, 6, 8),
    "prefetch_factor": (2, 4, 8),
}
"""17,280 configs once inert prefetch factors are left out"""


class ToyCompile(Option):
    """A stand-in for a compiler: its effects and costs resemble torch.compile's, nothing is compiled."""

    name = "toy_compile"
    help = "compile the model"
    default = "off"
    affects = frozenset({"compute", "memory"})

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        return CHOICES[self.name]

    def prior(self, value: Value, context: Context) -> Effect:
        effects = {
            "off": Effect(sd=0.0),
            "default": Effect(compute=-0.15, memory=-0.1, sd=0.15),
            "overhead": Effect(compute=-0.2, memory=-0.05, sd=0.2),
        }
        return effects[str(value)]

    def apply(self, value: Value, plan: Plan) -> None:
        raise NotImplementedError("simulated only")

    def snippet(self, value: Value) -> str:
        return "# simulated only"


@contextlib.contextmanager
def toy_options() -> Iterator[None]:
    """Register the options of these instances for a while."""
    OPTIONS[ToyCompile.name] = ToyCompile()
    try:
        yield
    finally:
        del OPTIONS[ToyCompile.name]


def make_space(baseline_workers: int, load_s: float, compute_s: float) -> Space:
    """Return the space of an instance whose probe saw `load_s` and `compute_s` (seconds a sample)."""
    facts = Facts(
        device="cuda:0",
        device_name="simulated",
        native_bf16=True,
        native_fp16=True,
        convolution_ranks=(4,),
        chain_length=12,
        chain_kind="blocks",
        sample_load_s=load_s,
        sample_compute_s=compute_s,
    )
    machine: Any = SimpleNamespace(usable_cores=float(CORES))
    baseline = {"batch_size": BASE_BATCH, "num_workers": baseline_workers}
    context = Context(facts=facts, machine=machine, baseline=baseline, max_batch=256)
    space = Space(context, CHOICES, {}, Config(**baseline))
    return Space(context, CHOICES, {}, space.canonical(Config(**baseline)))
