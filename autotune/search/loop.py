"""The search: baseline first, then what the sampler proposes, until the budget or the gain is used up."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import optuna

from autotune.config import Config
from autotune.documents import read_record
from autotune.drift import drifts
from autotune.errors import RunFolderError
from autotune.options import OPTIONS
from autotune.options.accumulation import keeps_samples
from autotune.plan import plan_for
from autotune.records import HARD_FLAGS, NOT_SCREENING, REPEAT, Outcome, TrialRecord, TrialSpec
from autotune.search.aim import Aim
from autotune.search.dead_ends import baseline_failed, check_baseline, check_failures, nothing_usable
from autotune.search.events import Events
from autotune.search.ledger import Ledger
from autotune.search.measured import Measured, eligible, ranked
from autotune.search.observation import INTERRUPTED, Observation, observe
from autotune.search.same_batch import counterparts, has_two_answers, likely_fit, trials_kept
from autotune.search.samplers.plan import baseline_due
from autotune.search.setup import Prepared, Wishes, deciding_limit
from autotune.search.specs import Specs
from autotune.trials.folder import RunFolder
from autotune.trials.preflight import preflight
from autotune.trials.runner import Runner

SAME_PROPOSAL = 8  # proposals of measured configs before one is drawn at random
SMALL_SPACE = 20_000  # configs that can be listed to find one that is left


class Search:
    """One search over a prepared workload."""

    def __init__(
        self,
        prepared: Prepared,
        wishes: Wishes,
        ledger: Ledger,
        folder: RunFolder,
        runner: Runner,
        events: Events,
        *,
        deadline: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`deadline` is a reading of `clock` after which no trial starts."""
        self.space = prepared.space
        self.specs = Specs(prepared, wishes, folder)
        self._mixes_sizes = True
        """a trial may step on two batch sizes"""
        self.measured: dict[Config, Measured] = {}
        self.stopped_because = ""
        self._prepared, self._wishes = prepared, wishes
        self._ledger, self._folder = ledger, folder
        self._runner, self._events = runner, events
        self._deadline, self._clock = deadline, clock
        self._run_count = 0
        self.two_answers = has_two_answers(prepared.space, wishes)
        self.aim = Aim(keep=wishes.keep if wishes.objective == "memory" else None)
        self._recent_failures: list[str] = []

    @property
    def baseline(self) -> Measured:
        return self._item(self.space.baseline)

    def resume(self) -> int:
        """Take up the trials that an earlier process measured; return how many.

        A trial that it recorded and did not live to tell is told now; one that it never ended is closed.

        Raises:
            RunFolderError: the study does not know the trials of the folder, whose records would be overwritten.
        """
        records = {record.number: record for record in self._folder.records()}
        screened = {number for number, record in records.items() if record.kind not in NOT_SCREENING}
        lost = screened - self._ledger.numbers()
        if lost:
            raise RunFolderError(
                f"{self._folder.path} holds {len(lost)} trials that its study does not know",
                hint="Is study.db gone, or --storage another one? --force starts anew, --out OTHER_FOLDER beside it.",
            )
        for trial in self._ledger.running():
            record = records.get(trial.number)
            if record is None:
                self._ledger.give_up(trial, INTERRUPTED)
            else:
                config = self.space.canonical(Config(**record.config))
                self._ledger.tell(trial, record, self._observation(record, config))
        for trial in self._ledger.take_waiting():
            self._ledger.give_up(trial, INTERRUPTED)
        for number, seen in self._ledger.observations():
            if number in records:
                self._remember(records[number], seen)
        return self._run_count

    def run(self) -> None:
        """Measure until the budget is used up, the space is, or nothing is left to gain.

        Raises:
            ScriptError: the baseline does not run; carries the user's traceback.
            SearchFailed: every trial fails alike.
            DoesNotFit: nothing fits.
        """
        if baseline_failed(self.baseline):  # and so ended the search that is resumed: its cause may be gone
            self._measure(self._ledger.ask_for(self.space.baseline), self.space.baseline, REPEAT)
            check_baseline(self.baseline, self._folder)
        while True:
            if (disturbed := self._disturbed()) is not None:
                self._repeat(disturbed)
                continue
            reason = self._reason_to_stop()
            if (same_batch := self._second_answer(ending=reason is not None)) is not None:
                self._measure(self._ledger.ask_for(same_batch), same_batch, label="trial")
                continue
            if reason is not None:
                break
            if baseline_due(self._seen(), self.space.baseline):
                label = "replicate" if self.baseline.seen else "baseline"
                self._measure(self._ledger.ask_for(self.space.baseline), self.space.baseline, label)
                check_baseline(self.baseline, self._folder)
                self._check_drift()
                self._say_how_long()
            elif (plain := self._rescue()) is not None:
                self._measure(self._ledger.ask_for(plain), plain, label="trial")
            else:
                proposal = self._propose()
                if proposal is None:
                    reason = "every config of the space has been measured"
                    break
                self._measure(*proposal, label="trial")
            check_failures(self.measured.values(), self._recent_failures, self._folder)
        self.stopped_because = reason
        if not any(item.usable for item in self.measured.values()):
            memory = "device" if self._prepared.accelerator else "host"
            raise nothing_usable(self.measured.values(), self._folder, memory)

    def eligible(self) -> list[Measured]:
        """Return the configs that may be answers, as they were measured."""
        return eligible(list(self.measured.values()), self.space.baseline, self._wishes)

    def ranking(self) -> list[Measured]:
        """Return the answers that there could be, best first by the objective."""
        return ranked(self.eligible(), self.aim)

    # -- one trial --------------------------------------------------------------------------------------------------

    def _measure(self, trial: optuna.Trial, config: Config, label: str) -> None:
        self._events.trial_started(trial.number, label, config, config.difference(self.space.baseline))
        self._ledger.describe(trial, config, label)
        try:
            record = self._record(trial.number, config, label)
        except BaseException:
            # a broken storage must not hide what interrupted the trial
            with suppress(Exception):
                self._close(trial, config)
            raise
        seen = self._observation(record, config)
        self._ledger.tell(trial, record, seen)
        self._remember(record, seen)
        self._events.trial_ended(record, "" if seen.fits is not False else "does not fit")

    def _close(self, trial: optuna.Trial, config: Config) -> None:
        """Close a trial that was interrupted; one that had just left its record counts."""
        try:
            record = read_record(self._folder.record(trial.number))
        except ValueError:
            self._ledger.give_up(trial, INTERRUPTED)
            return
        seen = self._observation(record, config)
        self._ledger.tell(trial, record, seen)
        self._remember(record, seen)

    def _disturbed(self) -> Measured | None:
        """Return a config whose run has to be repeated, if there is one and time for it."""
        if self._clock() >= self._deadline:
            return None
        return next((item for item in self.measured.values() if item.repeat_due), None)

    def _repeat(self, disturbed: Measured) -> None:
        """Measure once more: a trial of its own in the study, but none of those that the user asked for."""
        last = disturbed.records[-1]
        assert last.measurement is not None
        hard = ", ".join(sorted(HARD_FLAGS.intersection(last.measurement.flags)))
        self._events.note(f"trial {last.number} was disturbed ({hard}): measured once more, which counts in its place")
        self._measure(self._ledger.ask_for(disturbed.config), disturbed.config, REPEAT)
        if disturbed.config == self.space.baseline:
            check_baseline(self.baseline, self._folder)

    def _record(self, number: int, config: Config, kind: str) -> TrialRecord:
        refusal = preflight(config, self._prepared.facts)
        if refusal is None:
            # the reference is measured whole, however slow it is against what was found since; a repeat, too, or it
            # would be held against the disturbed run that it replaces
            whole = kind == REPEAT or config == self.space.baseline
            best = None if whole else self._best_sample_s(config)
            spec = self.specs.make(number, config, kind=kind, best_sample_s=best, small_batch=self._small_batch(config))
            record = self._runner.run(spec, self._folder.log(number), self._events.progress)
            if record.outcome is Outcome.ERROR and spec.small_batch is not None:
                return self._without_small_batch(spec)
            return record
        record = TrialRecord(
            number=number,
            kind=kind,
            config=dict(config),
            outcome=refusal[0],
            failure=refusal[1],
            limits=self._prepared.limits,
            started_at=time.time(),
        )
        self._folder.write_record(record)
        return record

    def _without_small_batch(self, spec: TrialSpec) -> TrialRecord:
        """Repeat a trial that failed after steps on another batch size: a queue of keys, say, may fit one alone."""
        record = self._runner.run(replace(spec, small_batch=None), self._folder.log(spec.number), self._events.progress)
        if record.outcome.measured:
            self._mixes_sizes = False
            self._events.note(
                f"trial {spec.number} fails after steps on a smaller batch: measured without them from now on"
            )
        return record

    def _observation(self, record: TrialRecord, config: Config) -> Observation:
        accelerator = self._prepared.accelerator
        limit = deciding_limit(self._prepared.limits, accelerator)
        return observe(record, config, limit, accelerator)

    def _remember(self, record: TrialRecord, seen: Observation) -> None:
        item = self._item(seen.config)
        item.add(record, seen)
        self._run_count += not seen.repeat
        self.specs.learn(record, seen.config)
        if record.measurement is not None:
            self._recent_failures.clear()
        elif record.failure is not None and record.outcome is not Outcome.OUT_OF_MEMORY:
            self._recent_failures.append(record.failure.reason)

    def _item(self, config: Config) -> Measured:
        return self.measured.setdefault(config, Measured(config, reference=config == self.space.baseline))

    def _best_sample_s(self, config: Config) -> float | None:
        """Return the time that a trial must not be clearly slower than; the front needs slower configs too.

        It is that of the answer which the config could be: one that keeps the baseline's samples per optimizer step
        has to be the best of those alone.
        """
        if self._wishes.objective != "throughput":
            return None
        rivals = [item for item in self.measured.values() if item.usable]
        second = self.two_answers and keeps_samples(config, self.space.baseline)
        if second or self._wishes.effective_batch is not None:
            rivals = [item for item in rivals if keeps_samples(item.config, config)]
        return min((item.sample_s for item in rivals if item.sample_s), default=None)

    def _small_batch(self, config: Config) -> int | None:
        """Return the batch size that, beside the config's own, gives the memory line of its class in one trial."""
        sizes = self.space.choices.get("batch_size", ())
        known = {self._memory_class(item.config) for item in self.measured.values() if item.sample_s is not None}
        if plan_for(config).compiles or not self._mixes_sizes:
            return None  # a second batch size would be compiled, too, and dynamo would take it for variable
        if len(sizes) < 2 or self._memory_class(config) in known:
            return None
        smallest = int(min(sizes))
        return smallest if smallest < int(config.value("batch_size")) else None

    def _memory_class(self, config: Config) -> tuple[object, ...]:
        """Return the values that set how memory grows with the batch: of the model, not of the loader."""
        return tuple(
            config.value(option.name)
            for option in self.space.options()
            if "memory" in option.affects and "loader" not in option.affects
        )

    # -- what comes next --------------------------------------------------------------------------------------------

    def _seen(self) -> list[Observation]:
        return [seen for item in self.measured.values() for seen in item.seen]

    def _propose(self) -> tuple[optuna.Trial, Config] | None:
        """Return the next config that was never measured, or None where there is none."""
        for _ in range(SAME_PROPOSAL):
            trial, config = self._ledger.ask()
            known = self.measured.get(config)
            if known is not None and known.seen:
                self._ledger.tell_again(trial, config, known.seen[-1])
            elif self.space.legal(config) is not None:
                self._ledger.give_up(trial, self.space.legal(config) or "")
            else:
                return trial, config
        left = next(self._left_over(), None)
        return None if left is None else (self._ledger.ask_for(left), left)

    def _say_how_long(self) -> None:
        """After the first trial, if it was measured: how long the rest will take, and what --timeout leaves of it."""
        first, trials = self.baseline.records[0], self._wishes.trials
        if self._run_count != 1 or first.measurement is None or not first.wall_s:
            return
        wall_s = first.wall_s
        minutes = max(1, round(wall_s * trials / 60))
        told = f"a trial of the baseline takes {wall_s:.0f} s; {trials} like it about {minutes} min"
        in_time = 1 + max(0.0, self._deadline - self._clock()) / wall_s
        if in_time < trials:
            told += f", and --timeout has room for {math.ceil(in_time)}"
        self._events.note(told)

    def _rescue(self) -> Config | None:
        """Return plain PyTorch at the baseline's batch, where the baseline hung: workers are what hangs most."""
        if not any(seen.outcome is Outcome.TIMEOUT for seen in self.baseline.seen):
            return None
        defaults = {
            name: OPTIONS[name].default
            for name, values in self.space.choices.items()
            if name != "batch_size" and OPTIONS[name].default in values
        }
        plain = self.space.canonical(self.space.baseline.replace(**defaults))
        return None if plain in self.measured else plain

    def _second_answer(self, ending: bool) -> Config | None:
        """Return a config that the second answer still needs measured, once the end of the search is near."""
        if not self.two_answers or not self.baseline.usable or self._budget_used() is not None:
            return None
        if baseline_due(self._seen(), self.space.baseline):
            return None
        kept = trials_kept(self._wishes.trials)
        left = counterparts(self.space, [item.config for item in self.ranking()[:kept]], self.measured)
        walls = [record.wall_s for item in self.measured.values() for record in item.records]
        near = self._run_count + len(left) >= self._wishes.trials
        near = near or self._clock() + (len(left) + 1) * max(walls, default=0.0) >= self._deadline
        if not left or not (near or ending):
            return None
        return next(iter(likely_fit(self.space, self._seen(), left)), None)

    def _left_over(self) -> Iterator[Config]:
        """Yield unmeasured legal configs in random order."""
        rng = random.Random(self._wishes.seed + self._run_count)
        names, values = list(self.space.choices), list(self.space.choices.values())
        if self.space.size() <= SMALL_SPACE:
            every = list(itertools.product(*values))
            rng.shuffle(every)
        else:
            every = [tuple(rng.choice(choice) for choice in values) for _ in range(SMALL_SPACE)]
        for item in every:
            config = self.space.canonical(Config(**dict(zip(names, item, strict=True))))
            if config not in self.measured and self.space.legal(config) is None:
                yield config

    def _budget_used(self) -> str | None:
        if self._run_count >= self._wishes.trials:
            return f"{self._run_count} trials were made"
        if self._clock() >= self._deadline and self._run_count > 0:
            return "the time is used up"
        return None

    def _reason_to_stop(self) -> str | None:
        if (used := self._budget_used()) is not None:
            return used
        ask = getattr(self._ledger.study.sampler, "reason_to_stop", None)
        found: str | None = ask(self._ledger.study) if ask is not None else None
        return found

    def _check_drift(self) -> None:
        """Say it when the machine changed since the baseline ran before."""
        found = drifts(self.baseline.records)
        if found and found[-1].last == self.baseline.records[-1].number:
            self._events.note(found[-1].sentence())
