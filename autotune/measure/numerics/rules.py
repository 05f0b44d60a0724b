"""What a run's figures must keep to, by what its options claim.

Exact: the gradients' error to float64 is at most 4 times the baseline's own. Rounded: cosine and norm ratio to the
baseline's. For both: the same parameters have gradients and change, and the losses stay together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from autotune.measure.numerics.observe import Observed, finite
from autotune.measure.numerics.vectors import angle
from autotune.numerics import Comparison, Figure
from autotune.options import Maths

ERROR_FACTOR = 4.0  # of the baseline's own error
ROUNDINGS = 8.0  # in the last place: an error so small is nobody's fault, however lucky the baseline was
MIN_COSINE = 0.99
NORM_RATIOS = (0.9, 1.1)
MIN_MOVED, MAX_MOVED = 0.5, 2.0  # of the baseline's change of a parameter over all steps
NEGLIGIBLE = 1e-3  # of the whole gradient's norm: a smaller one may be nothing but rounding (a bias before BatchNorm)
EXACT_LOSS, ROUNDED_LOSS = 1e-3, 0.05  # relative difference of losses that is always allowed
FAITHFUL = 0.05  # error of the whole gradient to float64, from which on float64 computes something else
NOISE_FACTOR = 2.0  # of what simulated rounding does to the gradient of a sensitive model
LATER_COSINE = 0.9  # of the whole gradient, at weights that a sensitive model reaches after some steps
FOLLOWED = 0.5  # of the baseline's movement: losses that scatter more than that beside it do not follow it
MOVED_LOSS = 2e-3  # of the loss: what falls less than that over a longer run may be rounding
SHOWN = 3  # names of parameters in a reason


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the baseline is measured by."""

    run: Observed
    baseline_errors: Mapping[str, float]
    """norm of what the baseline's gradient is off, by parameter"""
    loss_error: float
    """largest relative difference of the baseline's losses to the reference's"""


def reference_of(baseline: Observed, other: Observed, target: Observed) -> Reference:
    """Return the reference `target`, and as the baseline's own error its distance to `other`."""
    errors = {
        name: angle(gradient, other.gradients[name]).distance
        for name, gradient in baseline.gradients.items()
        if name in other.gradients
    }
    return Reference(run=target, baseline_errors=errors, loss_error=loss_difference(baseline, other))


def compare(
    claim: Maths, options: Mapping[str, Any], candidate: Observed, baseline: Observed, reference: Reference | None
) -> Comparison:
    """Return the figures of a candidate's run, with the first rule that it breaks as the reason.

    Args:
        reference: for an exact claim; a rounded one is held against the baseline.
    """
    names = [name for name in baseline.gradients if name in candidate.gradients]
    beside = {name: angle(candidate.gradients[name], baseline.gradients[name]) for name in names}
    weighty = _weighty(baseline)
    losses = loss_difference(candidate, baseline)
    figures: dict[str, Any] = {
        "cosine": _worst({name: beside[name].cosine for name in weighty if name in beside}, key=lambda value: -value),
        "norm_ratio": _worst({name: beside[name].ratio for name in weighty if name in beside}, key=_from_one),
        "loss_difference": losses,
    }
    reason = untrained = _untrained(candidate, baseline, weighty)
    reason = reason or _moved_otherwise(candidate, baseline, weighty)
    if claim is Maths.EXACT and reference is not None:
        worst, allowed, scale = _largest_error(candidate, reference, names)
        own = reference.baseline_errors[worst.parameter]
        figures["gradient_error"] = Figure(value=_over(worst.value, scale), parameter=worst.parameter)
        figures["allowed_error"], figures["baseline_error"] = _over(allowed, scale), _over(own, scale)
        if not reason and not worst.value <= allowed:
            reason = (
                f"the gradient of {worst.parameter} is off by {figures['gradient_error'].value:.2g} of its scale, "
                f"the baseline's own by {figures['baseline_error']:.2g}"
            )
        allowed_loss = max(EXACT_LOSS, ERROR_FACTOR * reference.loss_error)
    else:
        figures["gradient_error"] = _worst(
            {name: _over(beside[name].distance, beside[name].other_norm) for name in weighty if name in beside},
            key=_ascending,
        )
        reason = reason or _turned(figures["cosine"], figures["norm_ratio"])
        allowed_loss = ROUNDED_LOSS if reference is None else max(ROUNDED_LOSS, ERROR_FACTOR * reference.loss_error)
    if not reason and not losses <= allowed_loss:
        reason = f"the losses part from the baseline's by {losses:.2g}, more than {allowed_loss:.2g}"
    return Comparison(
        claim=claim.value,
        options=dict(options),
        reason=reason,
        untrained=bool(untrained),
        allowed_loss_difference=allowed_loss,
        losses=tuple(candidate.losses),
        with_gradient=len(candidate.gradients),
        changed=sum(moved > 0 for moved in candidate.moved.values()),
        skipped_steps=candidate.skipped,
        **figures,
    )


def follows(candidate: Observed, baseline: Observed) -> bool:
    """Whether the candidate's losses rise and fall as the baseline's do, wherever they lie."""
    ours, theirs = candidate.losses, baseline.losses
    if len(ours) != len(theirs) or not theirs:
        return True  # a step of the user's own may return no loss
    return _spread([one - other for one, other in zip(ours, theirs, strict=True)]) <= FOLLOWED * _spread(theirs)


def learns(candidate: Observed, baseline: Observed) -> str:
    """Return why longer runs show that the candidate learns less, or nothing where they do not."""
    lowered, wanted = _lowered(candidate.losses), _lowered(baseline.losses)
    scale = max(map(abs, baseline.losses))
    if wanted <= MOVED_LOSS * scale or lowered >= FOLLOWED * wanted:
        return ""
    return f"{len(baseline.losses)} steps lower the loss by {lowered:.2g}, and by {wanted:.2g} under the baseline"


def _lowered(losses: list[float]) -> float:
    """Return by how much the mean of the last third of the losses lies below that of the first."""
    third = len(losses) // 3
    return (sum(losses[:third]) - sum(losses[-third:])) / third


def _spread(values: list[float]) -> float:
    middle = sum(values) / len(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / len(values))


def wider(reference: Reference, baseline: Observed, rounded: Observed) -> Reference:
    """Return the reference with a baseline's error that is at least what rounding alone does: it may break ties."""
    errors = {
        name: max(error, angle(rounded.gradients[name], baseline.gradients[name]).distance)
        for name, error in reference.baseline_errors.items()
    }
    loss_error = max(reference.loss_error, loss_difference(rounded, baseline))
    return Reference(run=reference.run, baseline_errors=errors, loss_error=loss_error)


def as_rounding_alone(candidate: Observed, baseline: Observed, rounded: Observed) -> bool:
    """Whether every gradient of the candidate is about as near to the baseline's as rounding alone would leave it."""
    for name in _weighty(baseline):
        found = angle(candidate.gradients[name], baseline.gradients[name])
        by_rounding = angle(rounded.gradients[name], baseline.gradients[name]).distance
        if not found.distance <= NOISE_FACTOR * by_rounding and not _near(found.cosine, found.ratio):
            return False
    first = abs(candidate.losses[0] - baseline.losses[0]) if candidate.losses and baseline.losses else 0.0
    scale = max(map(abs, baseline.losses), default=0.0)
    allowed = max(ROUNDED_LOSS, NOISE_FACTOR * loss_difference(rounded, baseline))
    return _over(first, scale) <= ROUNDED_LOSS and loss_difference(candidate, baseline) <= allowed


def whole_cosine(first: Observed, second: Observed) -> float:
    """Return the cosine between two gradients of all parameters."""
    angles = [angle(first.gradients[name], gradient) for name, gradient in second.gradients.items()]
    norms = (sum(item.norm**2 for item in angles), sum(item.other_norm**2 for item in angles))
    return sum(item.cosine * item.norm * item.other_norm for item in angles) / math.sqrt(norms[0] * norms[1])


def loss_difference(candidate: Observed, baseline: Observed) -> float:
    """Return the largest difference of two sequences of losses, relative to the baseline's largest loss."""
    scale = max((abs(loss) for loss in baseline.losses), default=0.0)
    pairs = zip(candidate.losses, baseline.losses, strict=False)
    worst = 0.0
    for one, other in pairs:
        difference = abs(one - other)
        worst = difference if not difference <= worst else worst  # a nan is the worst
    return _over(worst, scale)


def as_other_draws(candidate: Observed, baseline: Observed, redrawn: Observed) -> bool:
    """Whether the candidate is about as far from the baseline as the baseline is from itself under another seed."""
    for name in _weighty(baseline):
        far = (
            angle(redrawn.gradients[name], baseline.gradients[name]).distance if name in redrawn.gradients else math.inf
        )
        if not angle(candidate.gradients[name], baseline.gradients[name]).distance <= NOISE_FACTOR * far:
            return False
    return True


def whole_error(first: Observed, second: Observed) -> float:
    """Return how far the gradients of all parameters are apart, relative to the second's norm."""
    angles = [angle(first.gradients[name], gradient) for name, gradient in second.gradients.items()]
    return math.sqrt(_over(sum(item.distance**2 for item in angles), sum(item.other_norm**2 for item in angles)))


def _untrained(candidate: Observed, baseline: Observed, weighty: list[str]) -> str:
    """Return why the candidate does not train what the baseline does, or nothing."""
    if not finite(candidate):
        return "the loss is not finite"
    lacking = [name for name in baseline.gradients if name not in candidate.gradients]
    if lacking:
        return f"no gradient reaches {_some(lacking)}"
    added = [name for name in candidate.gradients if name not in baseline.gradients]
    if added:
        return f"{_some(added)} has a gradient, and none under the baseline"
    still = [name for name, moved in baseline.moved.items() if moved > 0 and candidate.moved.get(name) == 0.0]
    still = [name for name in still if name in weighty]
    if still:
        return f"the steps do not change {_some(still)}"
    return ""


def _moved_otherwise(candidate: Observed, baseline: Observed, weighty: list[str]) -> str:
    other = [name for name in weighty if name in candidate.moved and not _moved_alike(name, candidate, baseline)]
    if other:
        name = other[0]
        ratio = _over(candidate.moved[name], baseline.moved[name])
        return f"the steps change {_some(other)} {ratio:.2g} times as much as the baseline's"
    return ""


def _moved_alike(name: str, candidate: Observed, baseline: Observed) -> bool:
    return MIN_MOVED * baseline.moved[name] <= candidate.moved[name] <= MAX_MOVED * baseline.moved[name]


def _near(cosine: float, ratio: float) -> bool:
    return cosine >= MIN_COSINE and NORM_RATIOS[0] <= ratio <= NORM_RATIOS[1]


def _turned(cosine: Figure | None, ratio: Figure | None) -> str:
    if cosine is not None and not cosine.value >= MIN_COSINE:
        return f"the gradient of {cosine.parameter} points elsewhere: cosine {cosine.value:.3g}, less than {MIN_COSINE}"
    if ratio is not None and not NORM_RATIOS[0] <= ratio.value <= NORM_RATIOS[1]:
        return f"the gradient of {ratio.parameter} has {ratio.value:.3g} times the baseline's norm"
    return ""


def _largest_error(candidate: Observed, reference: Reference, names: Iterable[str]) -> tuple[Figure, float, float]:
    """Return the error that exceeds its bound most (or comes nearest to it), as a norm, that bound, and their scale.

    The scale is the gradient's norm, or that of the model's densest gradient over as many elements where that is more:
    a gradient that is 0 but for rounding (of a bias before BatchNorm) has no digits of its own to be wrong in.
    """
    found: list[tuple[float, Figure, float, float]] = []
    target = reference.run
    own = reference.baseline_errors
    angles = {name: angle(candidate.gradients[name], target.gradients[name]) for name in names}
    typical = _median([_over(own[name], item.other_norm) for name, item in angles.items() if item.other_norm > 0])
    densest = max((item.other_norm / math.sqrt(_size(target, name)) for name, item in angles.items()), default=0.0)
    for name, item in angles.items():
        eps = torch.finfo(candidate.gradients[name].dtype).eps
        scale = max(item.other_norm, densest * math.sqrt(_size(target, name)))
        allowed = ERROR_FACTOR * max(own[name], typical * item.other_norm, ROUNDINGS * eps * scale)
        excess = item.distance / allowed if allowed else (0.0 if item.distance == 0.0 else math.inf)
        error = Figure(value=item.distance, parameter=name)
        found.append((math.inf if math.isnan(excess) else excess, error, allowed, scale))
    if not found:
        return Figure(value=0.0), 0.0, 0.0
    return max(found, key=lambda item: item[0])[1:]


def _weighty(run: Observed) -> list[str]:
    """Return the parameters whose gradient is a part of the whole that counts."""
    norms = {name: _norm(run, name) for name in run.gradients}
    whole = math.sqrt(sum(norm**2 for norm in norms.values()))
    return [name for name, norm in norms.items() if norm >= NEGLIGIBLE * whole and norm > 0]


def _norm(run: Observed, name: str) -> float:
    gradient = run.gradients[name]
    return angle(gradient, gradient).norm


def _size(run: Observed, name: str) -> int:
    return max(1, run.gradients[name].numel())


def _worst(values: Mapping[str, float], key: Any) -> Figure | None:
    """Return the figure with the largest key; what is not a number is worse than any."""
    if not values:
        return None
    name = max(values, key=lambda name: math.inf if math.isnan(values[name]) else key(values[name]))
    return Figure(value=values[name], parameter=name)


def _from_one(ratio: float) -> float:
    return abs(math.log(ratio)) if ratio > 0 else math.inf


def _ascending(value: float) -> float:
    return value


def _over(value: float, scale: float) -> float:
    if scale == 0.0:
        return 0.0 if value == 0.0 else math.inf
    return value / scale


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more parameters" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest
