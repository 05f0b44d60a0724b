"""The numerics guard's trial: one config beside the baseline, on the same samples, from the same weights.

Runs one after the other: the baseline, float64, the candidate with its exact options, the candidate whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
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
from autotune.records import Outcome
from autotune.trials.outcomes import classify_error, culprit
from autotune.workload import Workload
from autotune.workload.script import brief

SINGLE = 2.0**-22  # relative error of a float32 sum: some roundings
OTHER_SEEDS = 1000  # so far away are the seeds of the same steps with other random numbers
LATER_STEPS = 12  # of the baseline, before a sensitive model is looked at again
FLOAT64 = "float64"
SCATTER = "the baseline's own scatter"


def check_numerics(
    workload: Workload,
    baseline: Config,
    candidate: Config,
    *,
    device: str = "",
    seed: int = 0,
    task: Task | None = None,
    progress: Callable[[str, dict[str, Any]], None] = lambda phase, figures: None,
) -> Numerics:
    """Return whether `candidate` trains as `baseline` does, on the baseline's batch.

    Never an exception for what the workload cannot do: that is "not checked", with the reason. Errors that the
    candidate's steps raise and the baseline's do not are failures.
    """
    task = task or Task()
    changed = touching_maths(baseline, candidate)
    if not changed:
        return Numerics(status=Status.UNTOUCHED)
    try:
        return _Check(workload, baseline, device, seed, task, progress, changed).run()
    except Unchecked as error:
        return not_checked(str(error))
    except Exception as error:
        if classify_error(error).outcome is Outcome.OUT_OF_MEMORY:
            raise  # the trial's outcome says it
        return not_checked(f"the baseline's steps on the fixed batches raise {brief(culprit(error))}")


class _Check:
    def __init__(
        self,
        workload: Workload,
        baseline: Config,
        device: str,
        seed: int,
        task: Task,
        progress: Callable[[str, dict[str, Any]], None],
        changed: Mapping[str, Any],
    ) -> None:
        self._task, self._progress, self._changed = task, progress, dict(changed)
        self._baseline = baseline.replace(num_workers=0)
        self._notes: list[str] = []
        self._candidate: Observed | None = None
        self._plain = Config(batch_size=self._baseline.value("batch_size"))
        everything = self._baseline.replace(**self._changed)
        parts = math.lcm(micro_batches(self._baseline), micro_batches(everything))
        progress("samples", {})
        batches, prepared = take_batches(workload, self._baseline, parts, steps=task.steps, device=device, seed=seed)
        self._bench = Bench(
            workload=prepared,
            batches=batches,
            steps=task.steps,
            device=device,
            seed=seed,
            fixed_statistics=micro_batches(self._baseline) != micro_batches(everything),
        )

    def run(self) -> Numerics:
        self._progress("baseline", {})
        self._state = initial_state(self._bench, self._baseline)
        base = observe(self._bench, self._baseline, self._state)
        if not finite(base):
            raise Unchecked("the baseline's own loss is not finite on the fixed batches")
        if not base.gradients:
            raise Unchecked("the baseline's optimizers made no step that could be seen")
        exact = self._claiming(Maths.EXACT)
        rounded = self._claiming(Maths.ROUNDED)
        reference, kind = self._reference(base) if exact else (None, "")
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
        return Numerics(
            status=status,
            reason=reason,
            reference=kind,
            steps=self._task.steps,
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
            rounded = observe(self._bench, self._baseline, self._state, noise=self._grain)
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
        plain = self._plain if double else self._baseline
        for first in range(1, self._task.steps):
            self._progress(f"batch {first + 1}", {})
            base = observe(self._bench, self._baseline, self._state, first=first, steps=1)
            noise = 0.0 if double else self._grain
            other = observe(self._bench, plain, self._state, first=first, steps=1, double=double, noise=noise)
            found = observe(self._bench, config, self._state, first=first, steps=1)
            target = reference_of(base, other, other if double else base)
            if compare(Maths.EXACT, comparison.options, found, base, target).passed:
                self._notes.append(f"on the first batch alone, {comparison.reason}")
                return replace(comparison, reason="")
        return comparison

    def _later(self, config: Config) -> tuple[float, float]:
        """Return the cosine of the whole gradients, and how far the losses are apart, some steps of training on."""
        self._progress("some steps on", {})
        state = observe(self._bench, self._baseline, self._state, steps=LATER_STEPS, keep_end=True).end_state
        first, second = (observe(self._bench, one, state, steps=1) for one in (config, self._baseline))
        return whole_cosine(first, second), loss_difference(first, second)

    def _reference(self, base: Observed) -> tuple[Reference, str]:
        """Return what exact options are held against."""
        why = "it did not fit into memory before"
        if self._task.float64:
            self._progress(FLOAT64, {})
            try:
                target = observe(self._bench, self._plain, self._state, double=True)
            except Unchecked:
                raise
            except Exception as error:
                why = brief(culprit(error))
            else:
                alike = finite(target) and target.gradients.keys() == base.gradients.keys()
                if alike and whole_error(base, target) <= FAITHFUL:
                    return reference_of(base, target, target), FLOAT64
                why = "it computes something else there, from random numbers perhaps"
        self._notes.append(f"no float64 run: {why}")
        self._progress("baseline again", {})
        again = observe(self._bench, self._baseline, self._state, noise=self._grain)
        return reference_of(base, again, base), SCATTER

    def _drawn_otherwise(self, base: Observed) -> bool:
        """Whether the last candidate is no farther off than other random numbers, unknown to `quiet`, explain."""
        assert self._candidate is not None
        self._progress("baseline, other random numbers", {})
        redrawn = observe(self._bench, self._baseline, self._state, steps=1, salt=OTHER_SEEDS)
        return as_other_draws(self._candidate, base, redrawn)

    @property
    def _grain(self) -> float:
        """The relative error of one rounding under the baseline."""
        rounded = [
            OPTIONS[name].roundoff(value)
            for name, value in self._baseline.difference(Config()).items()
            if _rounds(name)
        ]
        return max([SINGLE, *rounded])


def _rounds(name: str) -> bool:
    return OPTIONS[name].claim is Maths.ROUNDED
