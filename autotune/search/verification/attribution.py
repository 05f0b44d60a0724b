"""What each option of the winner gives, and the smaller config that does as well."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.config import Config
from autotune.search.verification.claim import Figures, figures_of, largest_peak, pairs
from autotune.search.verification.design import THOROUGH, Design
from autotune.search.verification.schedule import mirrored
from autotune.search.verification.statistics import MARGIN, MIN_PAIRS, Comparison, Verdict, compare
from autotune.search.verification.windows import Bench, Measure, Window, disturbances

BASELINE, WINNER, MINIMAL = "baseline", "winner", "minimal"
CONFIRM_SHARE = 0.4  # of the time is kept for the smaller config


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """One option of the winner: what it gives there, all else equal."""

    option: str
    value: Any
    """the winner's"""
    baseline_value: Any
    without: Mapping[str, Any]
    """the winner with the baseline's value; options that have no effect then are gone too"""
    comparison: Comparison | None = None
    """time without the option over time with it: above 1, the option gives something. 95 % for each option"""
    reason: str = ""
    """why there is no figure"""
    needed: bool = False
    """whether the winner does not run without it"""

    @property
    def gives_nothing(self) -> bool:
        """Whether the interval contains no gain and the estimate is too small to matter."""
        found = self.comparison
        if found is None or self.reason:
            return False
        return found.pairs >= MIN_PAIRS and found.lower <= 1 and found.speedup <= 1 + MARGIN


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """The smaller config measured again, beside the baseline and the winner."""

    config: Mapping[str, Any]
    alpha: float
    seed: int
    to_baseline: Comparison | None = None
    to_winner: Comparison | None = None
    accepted: bool = False
    """whether it is proven faster than the baseline and not seen to be slower than the winner"""
    reason: str = ""
    windows: tuple[Window, ...] = ()

    @property
    def comparison(self) -> Comparison | None:
        """Baseline against the smaller config."""
        return self.to_baseline

    @property
    def figures(self) -> Figures | None:
        """What baseline and smaller config came to; None where one of them was never measured."""
        return figures_of(self.windows, BASELINE, MINIMAL)

    @property
    def peaks(self) -> tuple[int, int]:
        """The largest peaks of baseline and smaller config, of the memory that decides whether a config fits."""
        return largest_peak(self.windows, BASELINE), largest_peak(self.windows, MINIMAL)


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Why the winner is faster, option by option."""

    baseline: Mapping[str, Any]
    winner: Mapping[str, Any]
    seed: int
    contributions: tuple[Contribution, ...] = ()
    windows: tuple[Window, ...] = ()
    confirmation: Confirmation | None = None
    """None: every option gives something, or there was no time to show that the rest do"""

    @property
    def config(self) -> Mapping[str, Any]:
        """The config to hand out: the smaller one where it was accepted, else the winner."""
        accepted = self.confirmation is not None and self.confirmation.accepted
        return self.confirmation.config if self.confirmation and accepted else self.winner


def attribute(
    measure: Measure,
    baseline: Config,
    winner: Config,
    *,
    canonical: Callable[[Config], Config] = lambda config: config,
    legal: Callable[[Config], str | None] = lambda config: None,
    kept: Collection[str] = (),
    design: Design = THOROUGH,
    alpha: float = 0.05,
    seed: int = 0,
    deadline_s: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
    window_s: float = 0.0,
) -> Attribution:
    """Put one option at a time back to the baseline's value, interleaved with the verified winner.

    Options that give nothing go back together; that smaller config is then measured again. They go back to the
    baseline's value, the one that they were compared with, which for most is PyTorch's default.

    Args:
        baseline: canonical, as is the winner.
        canonical: `Space.canonical`.
        legal: `Space.legal`.
        kept: options that are not put back, since the user asked for what they are.
        alpha: of the smaller config's claim against the baseline.
        window_s: expected time of a window, from the verification; decides how many options there is time for.
    """
    bench = Bench(measure, deadline_s=deadline_s, clock=clock, window_s=window_s)
    questions = [item for item in _questions(baseline, winner, canonical, legal) if item.option not in kept]
    found, windows = _rounds(bench.part(1 - CONFIRM_SHARE), winner, questions, design, seed, window_s)
    idle = [item.option for item in found if item.gives_nothing]
    minimal = canonical(winner.replace(**{name: baseline.value(name) for name in idle}))
    confirmation = None
    if idle and minimal not in (winner, baseline):
        confirmation = confirm(bench, baseline, winner, minimal, design, alpha=alpha, seed=seed + 1)
    return Attribution(
        baseline=dict(baseline),
        winner=dict(winner),
        seed=seed,
        contributions=tuple(found),
        windows=tuple(windows),
        confirmation=confirmation,
    )


def confirm(
    bench: Bench, baseline: Config, winner: Config, minimal: Config, design: Design, *, alpha: float, seed: int
) -> Confirmation:
    """Measure the smaller config against the baseline and the winner in the same rounds.

    Within noise the simpler config wins: it must be faster than the baseline, and neither proven nor estimated to
    be slower than the winner by more than the margin.
    """
    arms = {BASELINE: baseline, WINNER: winner, MINIMAL: minimal}
    windows: list[Window] = []
    failure = ""
    rounds = design.confirmation_rounds
    for index, order in enumerate(mirrored(list(arms), rounds, seed)):
        if failure or not bench.affords(arms.values()):
            break
        for arm in order:
            windows.append(bench.take(arms[arm], stage="confirm", round=index, rounds=rounds, arm=arm))
            if windows[-1].failure:
                failure = f"{arm}: {windows[-1].failure}"
    to_baseline, to_winner = (_compare(windows, arm, MINIMAL, alpha, design) for arm in (BASELINE, WINNER))
    reason = failure or disturbances(windows)
    accepted = (
        not reason
        and to_baseline is not None
        and to_winner is not None
        and to_baseline.verdict is Verdict.FASTER
        and to_winner.verdict is not Verdict.SLOWER
        and to_winner.speedup * (1 + design.margin) >= 1
    )
    if not accepted and not reason:
        reason = "no time" if to_winner is None else "not shown to be as fast as the winner"
    return Confirmation(
        config=dict(minimal),
        alpha=alpha,
        seed=seed,
        to_baseline=to_baseline,
        to_winner=to_winner,
        accepted=accepted,
        reason=reason,
        windows=tuple(windows),
    )


def _questions(
    baseline: Config,
    winner: Config,
    canonical: Callable[[Config], Config],
    legal: Callable[[Config], str | None],
) -> list[Contribution]:
    """Return one open contribution for each option in which the winner differs from the baseline."""
    questions = []
    for name, value in winner.difference(baseline).items():
        if name not in winner:
            continue  # without effect in the winner: nothing of it to put back
        without = canonical(winner.replace(**{name: baseline.value(name)}))
        if without == winner:
            continue  # it follows from another option
        refusal = legal(without)
        questions.append(
            Contribution(
                option=name,
                value=value,
                baseline_value=baseline.value(name),
                without=dict(without),
                reason=refusal or "",
                needed=refusal is not None,
            )
        )
    return questions


def _rounds(
    bench: Bench,
    winner: Config,
    questions: Sequence[Contribution],
    design: Design,
    seed: int,
    window_s: float,
) -> tuple[list[Contribution], list[Window]]:
    """Measure the winner and each of its reduced forms in interleaved rounds; return the answers."""
    open_ones = [item for item in questions if not item.needed]
    if window_s > 0 and math.isfinite(bench.remaining_s()):
        # few options well rather than all of them badly; the options stand in the registry's order
        open_ones = open_ones[: max(0, int(bench.remaining_s() / (window_s * MIN_PAIRS)) - 1)]
    arms = {WINNER: winner} | {item.option: Config(**item.without) for item in open_ones}
    windows: list[Window] = []
    failures: dict[str, str] = {}
    rounds = design.attribution_rounds if open_ones else 0
    for index, order in enumerate(mirrored(list(arms), rounds, seed)):
        live = [arm for arm in order if arm not in failures]
        if WINNER in failures or not bench.affords(arms[arm] for arm in live):
            break
        for arm in live:
            windows.append(bench.take(arms[arm], stage="attribute", round=index, rounds=rounds, arm=arm))
            if windows[-1].failure:
                failures[arm] = windows[-1].failure
    return [_answered(item, windows, failures, item in open_ones, design) for item in questions], windows


def _answered(
    item: Contribution, windows: Sequence[Window], failures: Mapping[str, str], tried: bool, design: Design
) -> Contribution:
    if item.needed:
        return item
    comparison, reason, needed = None, "", False
    if item.option in failures:
        reason, needed = f"does not run without it: {failures[item.option]}", True
    elif WINNER in failures:
        reason = f"the winner failed: {failures[WINNER]}"
    else:
        comparison = _compare(windows, item.option, WINNER, 0.05, design) if tried else None
        own = [window for window in windows if window.arm in (item.option, WINNER)]
        reason = disturbances(own) if comparison else "no time"
    return Contribution(
        option=item.option,
        value=item.value,
        baseline_value=item.baseline_value,
        without=item.without,
        comparison=comparison,
        reason=reason,
        needed=needed,
    )


def _compare(windows: Sequence[Window], reference: str, arm: str, alpha: float, design: Design) -> Comparison | None:
    found = pairs(windows, reference, arm)
    return compare(*zip(*found, strict=True), alpha=alpha, margin=design.margin) if len(found) > 1 else None
