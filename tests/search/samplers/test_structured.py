"""The structured sampler: its plan, its memory of failures, its speed, its end."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest

from autotune.config import Config
from autotune.options import OPTIONS
from autotune.options.space import Space, make_space
from autotune.records import Outcome
from autotune.search.model import candidates as pool
from autotune.search.model.belief import Belief, Outlook
from autotune.search.model.encoding import Encoding
from autotune.search.observation import Observation
from autotune.search.samplers.distributions import config_from, holds
from autotune.search.samplers.history import History
from autotune.search.samplers.objectives import OBJECTIVES, Memory, Pareto, hypervolume_gain
from autotune.search.samplers.structured import BOLD_TRIALS, SMALL_GAIN, StructuredSampler
from tests.search.conftest import LIMIT_BYTES, accelerator_context, observe
from tests.search.samplers.test_sampler_conformance import ask, study_of, tell


def search(sampler: StructuredSampler, trials: int, seen: list[Observation] | None = None) -> list[Observation]:
    """Run a search without a study."""
    seen = list(seen or [])
    while len(seen) < trials:
        seen.append(observe(sampler.propose(History(seen, []))))
    return seen


def measured(space: Space, number: int) -> list[Observation]:
    """Return outcomes of configs drawn at random."""
    encoding = Encoding(space)
    rows = pool.drawn(encoding, number, np.random.default_rng(0))
    return [observe(encoding.config(row)) for row in rows]


def believe(sampler: StructuredSampler, seen: list[Observation]) -> Belief:
    belief = sampler.believe(History(seen, []))
    assert belief is not None
    return belief


def test_a_search_begins_with_the_anchors(space: Space) -> None:
    seen = search(StructuredSampler(space), 4)
    configs = [trial.config for trial in seen]
    assert configs[:3] == [space.baseline, space.baseline, space.expert()]
    assert configs[3] == space.expert().replace(batch_size=configs[3]["batch_size"])
    assert int(configs[3]["batch_size"]) > int(space.baseline["batch_size"])


def test_every_tenth_trial_replicates_the_baseline(space: Space) -> None:
    configs = [trial.config for trial in search(StructuredSampler(space), 21)]
    assert configs.count(space.baseline) == 4
    assert configs[10] == configs[20] == space.baseline


def test_a_baseline_beside_the_space_is_left_to_the_caller() -> None:
    space = make_space(accelerator_context(batch_size=50))
    sampler = StructuredSampler(space)
    seen = [observe(space.baseline)] * 2
    proposed = sampler.propose(History(seen, []))
    assert holds(space, proposed)
    assert len(search(sampler, 12, seen)) == 12


def test_a_baseline_above_the_largest_batch_is_not_proposed() -> None:
    context = dataclasses.replace(accelerator_context(batch_size=512), max_batch=64)
    space = make_space(context)
    seen = search(StructuredSampler(space), 10, [observe(space.baseline)] * 2)
    assert all(int(trial.config["batch_size"]) <= 64 for trial in seen[2:])


def test_the_same_records_give_the_same_proposal(space: Space) -> None:
    first, again = study_of(space, "structured", 5), study_of(space, "structured", 5)
    for _ in range(8):
        trial, other = ask(first, space), ask(again, space)
        assert trial.params == other.params
        for study, asked in ((first, trial), (again, other)):
            tell(study, asked, observe(config_from(space, asked.params)))
    # interrupted in the middle of a trial, and resumed
    interrupted = ask(again, space)
    again.tell(interrupted, state=optuna.trial.TrialState.FAIL)
    again.sampler = study_of(space, "structured", 5).sampler
    assert ask(first, space).params == ask(again, space).params


def test_a_config_in_other_hands_is_not_proposed_again(space: Space) -> None:
    seen = search(StructuredSampler(space), 6)
    sampler = StructuredSampler(space)
    running: list[Config] = []
    for _ in range(4):
        running.append(sampler.propose(History(seen, running)))
    assert len(set(running)) == 4


def test_no_config_is_tried_twice_but_the_baseline(space: Space) -> None:
    configs = [trial.config for trial in search(StructuredSampler(space), 18)]
    others = [config for config in configs if config != space.baseline]
    assert len(set(others)) == len(others)


def test_few_trials_run_out_of_memory(space: Space) -> None:
    seen = search(StructuredSampler(space), 24)
    lost = [number for number, trial in enumerate(seen) if trial.outcome is Outcome.OUT_OF_MEMORY]
    assert len(lost) <= 2
    assert all(number < BOLD_TRIALS for number in lost)


def test_with_a_time_limit_seconds_count_for_more(space: Space) -> None:
    seen = search(StructuredSampler(space), 6)
    values, rows, costs = [], [], []
    for timed in (False, True):
        sampler = StructuredSampler(space, timed=timed)
        belief = believe(sampler, seen)
        found, worth, _ = sampler._evaluate(belief, len(seen), 0)
        rows.append(found)
        values.append(worth)
        costs.append(belief.outlook(found, np.zeros((1, 3))).costs)
    assert (rows[0] == rows[1]).all()
    gains = values[0] > 0
    assert np.ptp(np.log(costs[0][gains])) > 0.3
    np.testing.assert_allclose(values[1][gains], values[0][gains] / np.sqrt(costs[0][gains]))


def test_twenty_trials_come_near_the_optimum(space: Space) -> None:
    encoding = Encoding(space)
    best = min(
        trial.sample_s or np.inf for trial in (observe(encoding.config(row)) for row in pool.everything(encoding))
    )
    found = min(trial.sample_s or np.inf for trial in search(StructuredSampler(space), 20))
    assert found <= 1.03 * best


def test_a_value_that_crashed_is_avoided(space: Space) -> None:
    seen = [observe(space.baseline), observe(space.baseline)]
    seen.append(Observation(config=space.expert(), outcome=Outcome.CRASHED, limit_bytes=LIMIT_BYTES))
    half = [space.baseline.replace(precision=name) for name in ("bf16", "fp16")]
    seen += [Observation(config=config, outcome=Outcome.UNSUPPORTED) for config in half]
    configs = [trial.config for trial in search(StructuredSampler(space), 12, seen)[5:]]
    assert {config.value("precision") for config in configs} == {"fp32"}


def test_a_search_goes_on_when_nothing_could_be_measured(space: Space) -> None:
    seen = [Observation(config=space.baseline, outcome=Outcome.OUT_OF_MEMORY, limit_bytes=100)] * 2
    seen.append(Observation(config=space.expert(), outcome=Outcome.ERROR))
    proposed = StructuredSampler(space).propose(History(seen, []))
    assert holds(space, proposed)
    assert proposed not in [trial.config for trial in seen]


def out_of_memory(config: Config) -> Observation:
    return Observation(config=config, outcome=Outcome.OUT_OF_MEMORY, limit_bytes=100)


def test_where_the_baseline_does_not_fit_the_batch_goes_down_not_astray(space: Space) -> None:
    sampler = StructuredSampler(space)
    seen = [out_of_memory(space.baseline)]
    sizes = [int(space.baseline["batch_size"])]
    for _ in range(8):
        config = sampler.propose(History(seen, []))
        seen.append(out_of_memory(config))
        sizes.append(int(config["batch_size"]))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == min(space.choices["batch_size"])
    assert len(sizes) == len({trial.config for trial in seen})


def test_a_baseline_beside_the_space_keeps_no_search_going() -> None:
    """Its values are in the model, and no config with them can be proposed."""
    space = make_space(
        accelerator_context(batch_size=50),
        restricted={"batch_size": [32, 64], "precision": ["fp32", "bf16"]},
        excluded=[name for name in OPTIONS if name not in ("batch_size", "precision")],
    )
    sampler = StructuredSampler(space)
    seen = [observe(space.baseline)] * 2
    belief = believe(sampler, seen)
    rows = sampler._candidates(belief, np.random.default_rng(0))
    assert {int(belief.encoding.config(row)["batch_size"]) for row in rows} == {32, 64}
    configs = [trial.config for trial in search(sampler, 6, seen)[2:]]
    assert len(set(configs)) == 4
    study = study_of(space, "structured")
    for trial in seen + [observe(config) for config in configs]:
        asked = study.ask()
        tell(study, asked, trial)
    assert StructuredSampler(space).reason_to_stop(study) is not None


def test_trials_that_cost_the_same_whatever_they_run_make_no_config_dear(space: Space) -> None:
    """A simulator's seconds say nothing of steps: by its law every measured config would be dear."""
    sampler = StructuredSampler(space)
    slow = [
        dataclasses.replace(trial, cost_s=5.0, sample_s=50 * trial.sample_s, compute_s=None, loader_s=None)
        for trial in search(sampler, 6)
        if trial.sample_s
    ]
    belief = believe(sampler, slow)
    assert belief.affordable(belief.measured).all()


@pytest.mark.parametrize("objective", OBJECTIVES.values())
def test_every_objective_drives_a_search(objective: type, space: Space) -> None:
    sampler = StructuredSampler(space, objective=objective())
    seen = search(sampler, 12)
    assert len(sampler.objective.order(believe(sampler, seen))) >= 1


def test_memory_is_saved_without_losing_throughput(space: Space) -> None:
    sampler = StructuredSampler(space, objective=Memory(keep=0.9))
    belief = believe(sampler, search(sampler, 24))
    chosen = sampler.objective.order(belief)[0]
    fastest = belief.measured_times[belief.feasible].min()
    assert belief.measured_times[chosen] <= fastest / 0.9
    assert belief.measured_peaks[chosen] < belief.measured_peaks[belief.measured_times.argmin()]


def test_a_front_has_no_dominated_config(space: Space) -> None:
    sampler = StructuredSampler(space, objective=Pareto())
    belief = believe(sampler, search(sampler, 20))
    front = sampler.objective.order(belief)
    assert (np.diff(belief.measured_times[front]) >= 0).all()
    assert (np.diff(belief.measured_peaks[front]) < 0).all()


def test_what_saves_memory_counts_beside_a_limit_that_nothing_comes_near() -> None:
    outlook = Outlook(
        times=np.full((1, 2), 0.9), peaks=np.array([0.5e9, 2e9]), fits=np.ones(2), runs=np.ones(2), costs=np.ones(2)
    )
    measured: Any = SimpleNamespace(
        feasible=np.ones(2, dtype=bool),
        measured_times=np.array([1.0, 0.6]),
        measured_peaks=np.array([1e9, 2e9]),
        limit_bytes=100e9,
    )
    smaller, nothing = hypervolume_gain(measured, outlook)
    assert smaller > 2 * SMALL_GAIN
    assert nothing == 0


@pytest.mark.parametrize("peaks", [[0.0, 0.0], [0.0, 2e9], [2e9, 2e9]], ids=["unknown", "one known", "alike"])
@pytest.mark.parametrize("limit", [None, 2e9])
def test_the_front_needs_no_peak_of_each_and_no_limit(peaks: list[float], limit: float | None) -> None:
    outlook = Outlook(
        times=np.full((1, 1), 0.5), peaks=np.array([2e9]), fits=np.ones(1), runs=np.ones(1), costs=np.ones(1)
    )
    measured: Any = SimpleNamespace(
        feasible=np.ones(2, dtype=bool),
        measured_times=np.array([1.0, 1.0]),
        measured_peaks=np.array(peaks),
        limit_bytes=limit,
    )
    assert np.isfinite(hypervolume_gain(measured, outlook)).all()


def test_a_search_stops_when_nothing_is_left_to_gain() -> None:
    fixed = {"channels_last": False, "pin_memory": False, "cudnn_benchmark": False}
    space = make_space(accelerator_context(), fixed=fixed, excluded=["persistent_workers", "prefetch_factor"])
    study = study_of(space, "structured")
    sampler = study.sampler
    assert isinstance(sampler, StructuredSampler)
    assert sampler.reason_to_stop(study) is None
    reason = None
    while reason is None and len(study.trials) < 60:
        trial = ask(study, space)
        tell(study, trial, observe(config_from(space, trial.params)))
        reason = sampler.reason_to_stop(study)
    assert reason is not None
    assert "expected improvement" in reason
    assert sampler.ranking(study)[0] != space.baseline


def test_a_space_within_the_budget_is_measured_whole(small_space: Space) -> None:
    study = study_of(small_space, "structured")
    sampler = study.sampler
    assert isinstance(sampler, StructuredSampler)
    configs = set()
    while sampler.reason_to_stop(study) is None:
        trial = ask(study, small_space)
        configs.add(config_from(small_space, trial.params))
        fits = dataclasses.replace(observe(config_from(small_space, trial.params)), limit_bytes=None)
        tell(study, trial, fits)
    assert len(configs) == 24


def test_proposing_is_quick_in_twenty_thousand_configs(space: Space) -> None:
    assert pool.count(Encoding(space)) > 20_000
    sampler = StructuredSampler(space)
    seen = [*search(sampler, 5), *[observe(space.baseline)] * 11, *measured(space, 84)]
    spent = []
    for _ in range(3):  # other threads of this process count, too
        started = time.thread_time()
        proposed = sampler.propose(History(seen, []))
        spent.append(time.thread_time() - started)
    assert min(spent) < 2.0  # under a second on a quiet core
    assert proposed not in [trial.config for trial in seen]


def test_ten_million_configs_are_no_obstacle() -> None:
    context = accelerator_context()
    many = {"batch_size": list(range(1, 400)), "checkpoint_segments": list(range(13)), "num_workers": list(range(17))}
    space = make_space(context, restricted={**many, "prefetch_factor": list(range(1, 9))})
    assert pool.count(Encoding(space)) > 10**7
    seen = search(StructuredSampler(space), 8)
    assert len({trial.config for trial in seen}) == 7


def test_an_expert_whose_compiling_does_not_work_is_tried_without_it() -> None:
    context = accelerator_context()
    facts = dataclasses.replace(context.facts, compile_refused=None)
    space = make_space(dataclasses.replace(context, facts=facts))
    seen = search(StructuredSampler(space), 2)
    expert = space.expert()
    assert expert["compile_mode"] == "default"
    seen.append(Observation(config=expert, outcome=Outcome.UNSUPPORTED, limit_bytes=LIMIT_BYTES))
    plain = space.canonical(expert.replace(compile_mode="off"))
    later = [trial.config for trial in search(StructuredSampler(space), 5, seen)][3:]
    assert later[0] == plain
    assert later[1] == plain.replace(batch_size=later[1]["batch_size"])


@pytest.mark.parametrize(("batch_size", "nearest"), [(4, 8), (10, 8), (32, 32), (50, 48), (100, 96), (500, 256)])
def test_the_expert_runs_at_the_baselines_batch_or_the_nearest(batch_size: int, nearest: int) -> None:
    space = make_space(accelerator_context(batch_size=batch_size))
    seen = [observe(space.baseline)] * 2
    assert StructuredSampler(space).propose(History(seen, []))["batch_size"] == nearest


def test_a_search_ends_in_words_that_say_what_was_left_out(small_space: Space) -> None:
    """Configs that hardly fit are left out, and so they are not said to be measured."""
    study = study_of(small_space, "structured")
    sampler = study.sampler
    assert isinstance(sampler, StructuredSampler)
    configs = set()
    while (reason := sampler.reason_to_stop(study)) is None:
        trial = ask(study, small_space)
        configs.add(config := config_from(small_space, trial.params))
        seen = dataclasses.replace(observe(config), limit_bytes=2_900)
        over = (seen.peak_bytes or 0) > 2_900
        tell(
            study, trial, Observation(config=config, outcome=Outcome.OUT_OF_MEMORY, limit_bytes=2_900) if over else seen
        )
    assert len(configs) < 24
    assert "likely fits" in reason
