"""What an option is: everything that the tool knows about one setting, in one object.

A new option is one module in this folder with one subclass of `Option`, plus its line in the registry.
Option modules import torch only inside the functions that carry the value out: the steering process has no torch.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autotune.options.snippet import Snippet

if TYPE_CHECKING:
    from autotune.facts import Facts
    from autotune.machine import Machine
    from autotune.plan import Plan

Value = bool | int | str
"""what an option may be set to: a TOML scalar"""


class Maths(enum.StrEnum):
    """What an option may do to the numbers of a step. The numerics guard holds it to that, on the baseline's batch."""

    UNTOUCHED = "untouched"
    """the step's operations stay as they are"""
    EXACT = "exact"
    """the same gradients, but for the order of sums: as near to float64 as the baseline's own"""
    ROUNDED = "rounded"
    """other number formats or algorithms: gradients that point the same way"""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Expected effect of a value against the option's default, as natural-log ratios (0.0: none).

    The search starts from these and learns the rest.
    """

    compute: float = 0.0
    """on the compute time of a sample"""
    loader: float = 0.0
    """on the time that the loader needs for a sample"""
    memory: float = 0.0
    """on the activation memory of a sample"""
    host_bytes: float = 0.0
    """on the host memory that no batch size changes, in bytes; as unsure as it is large"""
    sd: float = 0.2
    """how unsure that is: standard deviation of the log ratios"""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What an option may look at to decide its choices: all plain facts."""

    facts: Facts
    machine: Machine
    baseline: Mapping[str, Value] = field(default_factory=dict)
    """what the user runs today, by option name"""
    max_batch: int | None = None
    batch_step: int = 8
    effective_batch: int | None = None
    """samples per optimizer step that the user wants kept; None: batch sizes are free"""
    allowed: frozenset[str] = frozenset()
    """options that the user asked for without naming values: opt-in ones, and those of a config to be verified"""
    trials: int | None = None
    """budget of the search; None: unknown"""
    planned_samples: int | None = None
    """samples that the user is going to train on; None: unknown"""
    host_bytes: int | None = None
    """host memory that a trial may use; None: nobody set a limit"""


@dataclass(frozen=True)
class Inapplicable:
    """An option that cannot do anything here, and why.

    `keep` says that the baseline's value is still needed to build the workload (a batch size that cannot vary).
    """

    reason: str
    keep: bool = False
    unless_asked: bool = False
    """it would run: --fix and --choices may name it all the same, and what the baseline sets stays"""


class Option(ABC):
    """One setting that can be tuned."""

    name: str
    help: str
    default: Value
    """PyTorch's own"""
    ordered: bool = False
    """whether the order of the values means something (batch sizes do, precisions do not)"""
    affects: frozenset[str] = frozenset()
    """sides of the step that the value moves: "compute", "loader", "memory" """
    changes_result: bool = False
    """whether the value changes the training result, beyond rounding"""
    maths: Maths | None = None
    """what the option may do to a step's numbers; None: as `claim` derives it"""
    minimum: int = 0
    """smallest value, where the values are whole numbers"""
    opt_in: bool = False
    """whether the user must ask for it by --allow"""
    meets: tuple[str, ...] = ()
    """the options whose values `conflict` looks at"""
    needs: str | None = None
    """the option that must differ from its default for this one to have any effect"""
    order: int = 50
    """position among the options when the plan is made; lower is earlier"""

    @property
    def claim(self) -> Maths:
        """What the option claims of a step's numbers: exact, unless it is about loading or changes the result."""
        if self.maths is not None:
            return self.maths
        if "loader" in self.affects:  # the step sees the same samples, or none of it could be compared
            return Maths.UNTOUCHED
        return Maths.ROUNDED if self.changes_result else Maths.EXACT

    @abstractmethod
    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        """Return the values that make sense for this workload on this machine, or why there are none."""

    @abstractmethod
    def apply(self, value: Value, plan: Plan) -> None:
        """Let the value take effect: edit the plan that `Tuned` carries out."""

    def snippet(self, value: Value) -> Snippet:
        """Return plain PyTorch for what `apply` gives the plan as functions, or tells `Tuned` to do in its own way."""
        return Snippet()

    def decided_by(self, context: Context) -> str | None:
        """Return the option whose value decides this one's here, or None where it is chosen by itself."""
        return None

    def decide(self, value: Value, context: Context) -> Value:
        """Return the value of this option that follows from `value` of the one that decides it."""
        return self.default

    def expert(self, context: Context) -> Value:
        """Return what an experienced engineer would set first."""
        return self.default

    def prior(self, value: Value, context: Context) -> Effect:
        """Return the expected effect of `value` against the default."""
        return Effect()

    def roundoff(self, value: Value) -> float:
        """Return the relative error of one rounding where the claim is `ROUNDED`; by default TF32's, of 10 bits."""
        return 2.0**-11

    def start_s(self, value: Value, context: Context) -> float:
        """Return the seconds that `value` is expected to add to the start of a training (compiling)."""
        return 0.0

    def refusal(self, value: Value, context: Context) -> str | None:
        """Return why this one value cannot run with this workload, or None."""
        return None

    def conflict(self, values: Mapping[str, Value], context: Context) -> str | None:
        """Return why the value cannot run together with those of `meets`, or None; `values` has all of them."""
        return None

    def check(self, value: Value) -> str | None:
        """Return why `value` can never be a value of this option (a wrong type, out of range), or None."""
        if type(value) is type(self.default):
            too_small = type(value) is int and value < self.minimum
            return f"must be {self.minimum} or more" if too_small else None
        return {bool: "takes true or false", int: "takes a whole number", str: "takes text"}[type(self.default)]
