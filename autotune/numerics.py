"""What the numerics guard found: data alone, for records, reports and the emitted config.

The guard itself is in measure/numerics, its place in a search in search/guard.py.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


class Status(enum.StrEnum):
    """What may be said of a config's maths."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"
    UNTOUCHED = "untouched"
    """the config changes nothing that a step computes, so there is nothing to compare"""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The worst of one figure over all parameters."""

    value: float
    parameter: str = ""
    """where it is the worst"""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One run beside the baseline's: the options that it is about, what they claim, and how far they keep it."""

    claim: str
    """a value of `Maths`: "exact" or "rounded" """
    options: Mapping[str, Any]
    """what differs from the baseline in this run"""
    reason: str = ""
    """why it fails; empty: it passes"""
    untrained: bool = False
    """it fails not by a figure: steps raise, the loss is not finite, parameters lack a gradient or do not change"""
    gradient_error: Figure | None = None
    """relative error of the first update's gradients: to float64 where the claim is exact, else to the baseline"""
    allowed_error: float | None = None
    """for that parameter; None: the claim sets no such bound"""
    baseline_error: float | None = None
    """the baseline's own, for that parameter"""
    cosine: Figure | None = None
    norm_ratio: Figure | None = None
    """norm of the candidate's gradient over that of the baseline's, the farthest from 1"""
    loss_difference: float | None = None
    """largest over the steps, relative to the baseline's largest loss"""
    allowed_loss_difference: float = 0.0
    losses: tuple[float, ...] = ()
    with_gradient: int = 0
    """parameters that have a gradient"""
    changed: int = 0
    """parameters that the steps changed"""
    skipped_steps: int = 0
    """updates that the gradient scaler left out because of an overflow, the first ones of the scaler included"""

    @property
    def passed(self) -> bool:
        return not self.reason

    def figures(self) -> dict[str, Any]:
        """Return the figures by name, rounded to what they say; those of the worst parameter with its name."""
        found: dict[str, Any] = {"options": dict(self.options)}
        for name in ("gradient_error", "cosine", "norm_ratio"):
            figure = getattr(self, name)
            if figure is not None:
                found[name], found[f"{name}_of"] = _digits(figure.value), figure.parameter
        for name in ("baseline_error", "allowed_error", "loss_difference"):
            value = getattr(self, name)
            if value is not None:
                found[name] = _digits(value)
        return found | {"changed_parameters": self.changed, "skipped_steps": self.skipped_steps}

    @property
    def loss_difference_allowed(self) -> bool:
        return self.loss_difference is not None and self.loss_difference <= self.allowed_loss_difference


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """One config held against the baseline."""

    status: Status
    reason: str = ""
    """why it failed or was not checked"""
    reference: str = ""
    """what exact options were held against: "float64", or "the baseline's own scatter" """
    steps: int = 0
    with_gradient: int = 0
    """parameters that have a gradient under the baseline"""
    baseline_losses: tuple[float, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()
    """what was done otherwise than usual"""

    @property
    def demotes(self) -> bool:
        """Whether the config may not win."""
        return self.status is Status.FAILED

    @property
    def short(self) -> str:
        """The status, with a reason where it needs one."""
        return f"{self.status.value}: {self.reason}" if self.reason else self.status.value

    def figures(self) -> dict[str, Any]:
        """Return what the emitted file says: plain data, without what is unknown."""
        found: dict[str, Any] = {"status": self.status.value}
        if self.reason:
            found["reason"] = self.reason
        if self.comparisons:
            found |= {"steps": self.steps, "parameters_with_gradient": self.with_gradient}
        if self.reference:
            found["exact_reference"] = self.reference
        for comparison in self.comparisons:
            found[comparison.claim] = comparison.figures()
        return found | ({"notes": list(self.notes)} if self.notes else {})

    @property
    def sentence(self) -> str:
        """One line for people."""
        if self.status is Status.UNTOUCHED:
            return "numerics: the config changes nothing in what a step computes"
        if self.status is not Status.PASSED:
            return f"numerics {self.status.value}: {self.reason}"
        exact = {name for comparison in self.comparisons if comparison.claim == "exact" for name in comparison.options}
        parts = [_told(comparison, exact) for comparison in self.comparisons]
        return f"numerics checked beside the baseline over {self.steps} steps: {'; '.join(parts)}"


def not_checked(reason: str) -> Numerics:
    """Return the answer where nothing can be said."""
    return Numerics(status=Status.NOT_CHECKED, reason=reason)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a numerics trial is asked beside its config and the baseline."""

    steps: int = 4
    float64: bool = True
    """False where an earlier try did not fit into memory"""


def _told(found: Comparison, exact: Collection[str]) -> str:
    skipped = f", {found.skipped_steps} steps skipped by the gradient scaler" if found.skipped_steps else ""
    if found.claim == "exact":
        error = f" (gradient error {found.gradient_error.value:.1g})" if found.gradient_error is not None else ""
        return f"{', '.join(found.options)} as exact as it{error}{skipped}"
    names = ", ".join(name for name in found.options if name not in exact)
    cosine = f" (gradient cosine {found.cosine.value:.4f} or more)" if found.cosine is not None else ""
    return f"{names} within rounding{cosine}{skipped}"


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
