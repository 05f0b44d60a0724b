"""What the numerics guard found, for `autotune show`."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.numerics import Comparison, Figure, Numerics, Status
from autotune.words.figures import significant
from autotune.words.text import values_text


def numerics_lines(found: Numerics) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of the whole check."""
    yield "answer", found.short
    if found.status is Status.UNTOUCHED:
        yield "", "the config changes nothing in what a step computes"
    if found.comparisons:
        yield "steps", f"{found.steps} on the same samples, from the same weights, without dropout and the like"
        yield "losses of the baseline", _numbers(found.baseline_losses)
        yield "parameters", f"{found.with_gradient} have a gradient under the baseline"
    if found.reference:
        yield "exact options against", found.reference
    for note in found.notes:
        yield "note", note


def comparison_lines(found: Comparison) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of one comparison."""
    yield "options", values_text(found.options)
    yield "answer", found.reason or "passed"
    if found.losses:
        yield "losses", _numbers(found.losses)
    if found.loss_difference is not None:
        allowed = f" of the largest; allowed {significant(found.allowed_loss_difference, 2)}"
        yield "loss difference", significant(found.loss_difference, 2) + allowed
    if found.gradient_error is not None:
        text = _figure(found.gradient_error)
        if found.baseline_error is not None and found.allowed_error is not None:
            own, allowed = significant(found.baseline_error, 2), significant(found.allowed_error, 2)
            text += f"; the baseline's own is {own}, allowed {allowed}"
        yield "gradient error", text
    if found.cosine is not None:
        yield "least cosine", f"{found.cosine.value:.6f} ({found.cosine.parameter})"
    if found.norm_ratio is not None:
        yield "norm ratio", f"{found.norm_ratio.value:.6f} ({found.norm_ratio.parameter})"
    if found.with_gradient:
        yield "parameters", f"{found.with_gradient} have a gradient, {found.changed} changed"
    if found.skipped_steps:
        yield "skipped steps", f"{found.skipped_steps} by the gradient scaler, because of overflows"


def _figure(found: Figure) -> str:
    return f"{significant(found.value, 2)} of the gradient's norm ({found.parameter})"


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.6g}" for value in values)
