"""The numerics guard's trial: one config beside the baseline, on the same samples, from the same weights.

Runs one after the other: the baseline, float64, the candidate with its exact options, the candidate whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from autotune.config import Config
from autotune.measure.numerics.observe import Bench, Observed, Overflow, finite, initial_state, micro_batches, observe
from autotune.measure.numerics.rules import (
    FAITHFUL,
    LATER_COSINE,
    ROUNDED_LOSS,
    Reference,
    as_other_draws,
    as_rounding_alone,
    compare,
    follows,
    learns,
    loss_difference,
    reference_of,
    whole_cosine,
    whole_error,
    wider,
)
from autotune.measure.numerics.samples import Unchecked, take_batches
from autotune.numerics import Comparison, Numerics, Status, Task, not_checked
from autotune.options import OPTIONS, Maths
from autotune.options.space import touching_maths
from autotune.outcomes import classify_error, culprit
from autotune.records import Outcome
from autotune.workload import Workload
from autotune.workload.script import brief

Progress = Callable[[str, dict[str, Any]], None]

SINGLE = 2.0**-22  # relative error of a float32 sum: some roundings
OTHER_SEEDS = 1000  # so far away are the seeds of the same steps with other random numbers
LONGER_STEPS = 24  # where the losses of the first ones do not follow the baseline's
LATER_STEPS = 12  # of the baseline, before a sensitive model is looked at again
SCATTER = "the baseline's own scatter"


class BaselineRuns:
    """The baseline on fixed batches, and what it is measured by: run once, for any number of candidates."""

    def __init__(
        self, workload: Workload, config: Config, parts: int, *, device: str, seed: int, task: Task, progress: Progress
    ) -> None:
        """`parts`: into how many micro batches a batch must divide; BatchNorm's statistics are then taken beforehand.

        Raises:
            Unchecked: nothing can be compared with it; says why.
        """
        self.config, self.task, self._progress = config, task, progress
        progress("samples", {})
        batches, prepared = take_batches(workload, config, parts, steps=task.steps, device=device, seed=seed)
        self.bench = Bench(
            workload=prepared,
            batches=batches,
            steps=task.steps,
            device=device,
            seed=seed,
            fixed_statistics=parts > micro_batches(config),
        )
        progress("baseline", {})
        self.state = initial_state(self.bench, config)
        self.observed = observe(self.bench, config, self.state)
        if not finite(self.observed):
            raise Unchecked("the baseline's own loss is not finite on the fixed batches")
        if not self.observed.gradients:
            raise Unchecked("the baseline's optimizers made no step that could be seen")
        self.plain = Config(batch_size=config.value("batch_size"))
        self.note = ""
        """why there is no float64 run"""

    @cached_property
    def reference(self) -> Reference:
        """What exact options are held against."""
        base = self.observed
        why = "it did not fit into memory before"
        if self.task.float64:
            self._progress("float64", {})
            try:
                target = observe(self.bench, self.plain, self.state, double=True)
            except Unchecked:
                raise
            except Exception as error:
                why = brief(culprit(error))
            else:
                alike = finite(target) and target.gradients.keys() == base.gradients.keys()
                if alike and whole_error(base, target) <= FAITHFUL:
                    return reference_of(base, target, target)
                why = "it computes something else there, from random numbers perhaps"
        self.note = f"no float64 run: {why}"
        self._progress("baseline with rounding noise", {})
        again = observe(self.bench, self.config, self.state, noise=self.grain)
        return reference_of(base, again, base)

    @property
    def grain(self) -> float:
        """The relative error of one rounding under the baseline."""
        changed = self.config.difference(Config()).items()
        return max([SINGLE, *(OPTIONS[name].roundoff(value) for name, value in changed if _rounds(name))])


Kept = dict[int, BaselineRuns]
"""the baseline's runs by the parts of a batch"""


def check_numerics(
    workload: Workload,
    baseline: Config,
    candidate: Config,
    *,
    device: str = "",
    seed: int = 0,
    task: Task | None = None,
    progress: Progress = lambda phase, figures: None,
    kept: Kept | None = None,
) -> Numerics:
    """Return whether `candidate` trains as `baseline` does, on the baseline's batch.

    Never an exception for what the workload cannot do: that is "not checked", with the reason. Errors that the
    candidate's steps raise and the baseline's do not are failures.

    Args:
        kept: the baseline's runs in earlier checks of the same workload; those of this one are added.

    Raises:
        Exception: memory ran out.
    """
    changed = touching_maths(baseline, candidate)
    if not changed:
        return Numerics(status=Status.UNTOUCHED)
    kept = {} if kept is None else kept
    base = baseline.replace(num_workers=0)
    parts = math.lcm(micro_batches(base), micro_batches(base.replace(**changed)))
    try:
        if parts not in kept:
            kept[parts] = BaselineRuns(
                workload, base, parts, device=device, seed=seed, task=task or Task(), progress=progress
            )
        return _Check(kept[parts], progress, changed).run()
    except Unchecked as error:
        return not_checked(str(error))
    except Exception as error:
        if classify_error(error).outcome is Outcome.OUT_OF_MEMORY:
            raise  # the trial's outcome says it
        return not_checked(f"the baseline's steps on the fixed batches raise {brief(culprit(error))}")


class _Check:
    """One candidate beside the baseline."""

    def __init__(self, runs: BaselineRuns, progress: Progress, changed: Mapping[str, Any]) -> None:
        self._runs, self._progress, self._changed = runs, progress, dict(changed)
        self._baseline, self._bench, self._state = runs.config, runs.bench, runs.state
        self._notes: list[str] = []
        self._candidate: Observed | None = None

    def run(self) -> Numerics:
        base = self._runs.observed
        exact = self._claiming(Maths.EXACT)
        rounded = self._claiming(Maths.ROUNDED)
        reference = self._runs.reference if exact else None
        if exact and self._runs.note:
            self._notes.append(self._runs.note)
        comparisons = []
        if exact:
            comparisons.append(self._compare(Maths.EXACT, exact, base, reference))
        if rounded and all(found.passed for found in comparisons):
            comparisons.append(self._compare(Maths.ROUNDED, {**exact, **rounded}, base, reference))
        failed = next((found for found in comparisons if not found.passed), None)
        status, reason = (Status.PASSED, "") if failed is None else (Status.FAILED, failed.reason)
        if failed is not None and not failed.untrained and self._drawn_otherwise(base):
            status = Status.NOT_CHECKED
            reason = "the model draws random numbers that could not be switched off, so that no two runs need agree"
        kind = ("float64" if reference.run.double else SCATTER) if reference is not None else ""
        return Numerics(
            status=status,
            reason=reason,
            reference=kind,
            steps=self._bench.steps,
            with_gradient=len(base.gradients),
            baseline_losses=tuple(base.losses),
            comparisons=tuple(comparisons),
            notes=tuple(self._notes),
        )

    def _claiming(self, claim: Maths) -> dict[str, Any]:
        return {name: value for name, value in self._changed.items() if OPTIONS[name].claim is claim}

    def _compare(
        self, claim: Maths, options: Mapping[str, Any], base: Observed, reference: Reference | None
    ) -> Comparison:
        self._progress(f"candidate, {claim.value}", {})
        config = self._baseline.replace(**options)
        try:
            found = observe(self._bench, config, self._state)
        except Unchecked:
            raise
        except Overflow:
            reason = "fp16 overflows at every scale, so that no step is ever made"
        except Exception as error:
            if classify_error(error).outcome is Outcome.OUT_OF_MEMORY:
                raise
            reason = f"its steps raise {brief(culprit(error))}"
        else:
            self._candidate = found
            comparison = compare(claim, options, found, base, reference)
            if comparison.passed and claim is Maths.ROUNDED and not follows(found, base):
                return replace(comparison, reason=self._why_it_learns_less(config))
            if comparison.passed or comparison.untrained:
                return comparison
            return self._again_with_noise(comparison, config, found, base, reference)
        return Comparison(claim=claim.value, options=dict(options), reason=reason, untrained=True)

    def _again_with_noise(
        self,
        comparison: Comparison,
        config: Config,
        found: Observed,
        base: Observed,
        reference: Reference | None,
    ) -> Comparison:
        """Ask what rounding alone does to this model, and whether the candidate does more than that."""
        self._progress("baseline with rounding noise", {})
        claim, options = Maths(comparison.claim), comparison.options
        if claim is Maths.EXACT and reference is not None:
            rounded = observe(self._bench, self._baseline, self._state, noise=self._runs.grain)
            again = compare(claim, options, found, base, wider(reference, base, rounded))
            return again if again.passed else self._on_other_batches(again, config, reference)
        roundoff = max(OPTIONS[name].roundoff(value) for name, value in options.items() if _rounds(name))
        rounded = observe(self._bench, self._baseline, self._state, noise=roundoff)
        if not as_rounding_alone(found, base, rounded):
            return comparison
        cosine, loss = self._later(config)
        if not (cosine >= LATER_COSINE and loss <= ROUNDED_LOSS):
            return comparison
        self._notes.append(
            f"the gradients are sensitive at the first weights, where rounding alone turns them as far "
            f"({comparison.reason}); {LATER_STEPS} steps on, the whole gradient's cosine is {cosine:.3f}"
        )
        return replace(comparison, reason="")

    def _on_other_batches(self, comparison: Comparison, config: Config, reference: Reference) -> Comparison:
        """Forgive what happens on one batch alone: a value so near to a kink that it lands on the other side."""
        if not comparison.loss_difference_allowed:
            return comparison
        double = reference.run.double
        plain = self._runs.plain if double else self._baseline
        for first in range(1, self._bench.steps):
            self._progress(f"batch {first + 1}", {})
            base = observe(self._bench, self._baseline, self._state, first=first, steps=1)
            noise = 0.0 if double else self._runs.grain
            other = observe(self._bench, plain, self._state, first=first, steps=1, double=double, noise=noise)
            found = observe(self._bench, config, self._state, first=first, steps=1)
            target = reference_of(base, other, other if double else base)
            if compare(Maths.EXACT, comparison.options, found, base, target).passed:
                self._notes.append(f"on the first batch alone, {comparison.reason}")
                return replace(comparison, reason="")
        return comparison

    def _why_it_learns_less(self, config: Config) -> str:
        """Look at a longer run: losses that a format is too coarse for stand still, noise averages out."""
        self._progress("a longer run", {})
        longer = [observe(self._bench, one, self._state, steps=LONGER_STEPS) for one in (config, self._baseline)]
        return learns(*longer)

    def _later(self, config: Config) -> tuple[float, float]:
        """Return the cosine of the whole gradients, and how far the losses are apart, some steps of training on."""
        self._progress("some steps on", {})
        state = observe(self._bench, self._baseline, self._state, steps=LATER_STEPS, keep_end=True).end_state
        first, second = (observe(self._bench, one, state, steps=1) for one in (config, self._baseline))
        return whole_cosine(first, second), loss_difference(first, second)

    def _drawn_otherwise(self, base: Observed) -> bool:
        """Whether the last candidate is no farther off than other random numbers, unknown to `quiet`, explain."""
        assert self._candidate is not None
        self._progress("baseline, other random numbers", {})
        redrawn = observe(self._bench, self._baseline, self._state, steps=1, salt=OTHER_SEEDS)
        return as_other_draws(self._candidate, base, redrawn)


def _rounds(name: str) -> bool:
    return OPTIONS[name].claim is Maths.ROUNDED
