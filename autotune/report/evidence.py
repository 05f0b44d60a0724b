"""What the end of a search and the page show: the run, the answers, what is proven of them and what is believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.applying import apply_line, tuned_arguments, verify_line
from autotune.config import Config, read_document
from autotune.documents import from_plain
from autotune.errors import ConfigError, RunFolderError
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.numerics import Numerics, Status
from autotune.options.space import touching_maths
from autotune.records import NOT_SCREENING, Measurement, TrialRecord
from autotune.repeats import standing
from autotune.report.outcome import how_they_ended, row_of
from autotune.report.rows import Row, rows_of_run, screening_noise
from autotune.report.run import Run
from autotune.search.verification import Attribution, Claim, Verdict, Verification, sentence
from autotune.search.verification.attribution import Confirmation, Contribution

if TYPE_CHECKING:
    from autotune.search.explain import Explanation, ValueEffect

BEST, SAME_BATCH, BASELINE = "best", "same_batch", "baseline"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One config that the search hands out."""

    role: str
    """"best" or "same_batch": the best that keeps the baseline's batch size, where the best does not"""
    config: Config
    path: Path
    """where it is emitted; may be missing after an interrupted search"""
    claim: Claim | None = None
    """None: not verified"""
    attribution: Attribution | None = None
    checked: Numerics | None = None
    """what the file says of the config's maths: status and reason"""
    notes: tuple[str, ...] = ()
    """of the emitted file: what the config means for the training itself, and when compiling pays back"""

    @property
    def sentence(self) -> str:
        """The verdict in words; empty where there is none."""
        return "" if self.claim is None else sentence(self.claim)

    @property
    def is_claimed(self) -> bool:
        """Whether the claim's figures are those of this very config: no option was taken back after it."""
        return self.claim is not None and not Config(**self.claim.candidate).difference(self.config)

    @property
    def paired(self) -> Claim | Confirmation | None:
        """The measurement of this very config beside the baseline, window by window; None: there is none."""
        if self.claim is None or self.is_claimed:
            return self.claim
        smaller = self.attribution.confirmation if self.attribution else None
        return smaller if smaller is not None and not Config(**smaller.config).difference(self.config) else None

    def contribution(self, option: str) -> Contribution | None:
        found = self.attribution.contributions if self.attribution else ()
        return next((item for item in found if item.option == option), None)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that both are made from. `explanation`: of the search's models; None where they know nothing."""

    run: Run
    verification: Verification | None = None
    answers: tuple[Answer, ...] = ()
    """the best config's first; empty where nothing was measured within the limits"""
    explanation: Explanation | None = None
    rows: list[Row] = field(default_factory=list)
    """one a config"""
    single: list[Row] = field(default_factory=list)
    """one a run, by trial number"""

    @cached_property
    def noise(self) -> float | None:
        return screening_noise(self.rows)

    @property
    def baseline_row(self) -> Row | None:
        return row_of(self.rows, self.run.baseline)

    def row(self, answer: Answer) -> Row | None:
        return row_of(self.rows, answer.config)

    def apply_line(self, answer: Answer) -> str:
        """Return what applies an answer as it was measured."""
        info = self.run.info
        facts, machine = from_plain(Facts, info.facts), from_plain(Machine, info.machine)
        return apply_line(answer.path, info.source, tuned_arguments(answer.config, facts, machine))

    def verify_line(self, answer: Answer) -> str:
        """Return what proves an answer, where nothing has."""
        other = None if answer.role == BEST else answer.path
        return verify_line(self.run.folder.path, self.run.info.source, other)

    def arms(self) -> Iterator[tuple[str, Config]]:
        """Yield the configs that stand out: role and config, the baseline's first, none of them twice."""
        yield BASELINE, self.run.baseline
        for answer in self.answers:
            if answer.config.difference(self.run.baseline):
                yield answer.role, answer.config

    def records(self, config: Config, *, verification: bool = False) -> list[TrialRecord]:
        """Return the measured records of a config: of the search, or of the verification's windows."""
        return [
            record
            for record in self.run.records
            if (record.kind == "verification" if verification else record.kind not in NOT_SCREENING)
            and record.outcome.measured
            and record.measurement is not None
            and not Config(**record.config).difference(config)
        ]

    def measurements(self, config: Config) -> list[Measurement]:
        """Return what the search measured of a config, in the runs that count."""
        runs = standing(self.records(config))
        return [record.measurement for record in runs if record.measurement is not None]

    def numerics(self, answer: Answer) -> str:
        """Return what was checked of a config's maths, in a sentence; empty: nothing was, as for the baseline."""
        last = checked_maths(self.run, answer.config) or answer.checked
        return "" if last is None else last.sentence

    @property
    def only_baseline(self) -> bool:
        """Whether no trial of another config was made: there is nothing to compare the baseline with."""
        return not any(row.differs for row in self.rows)

    @property
    def why_unchanged(self) -> str:
        """Why the baseline is what the search hands back, where it does."""
        if self.only_baseline:
            return "no other config was tried"
        others = [row for row in self.rows if row.differs]
        if all(row.rank is None for row in others):
            return f"no other config was measured within the limits ({how_they_ended(others)})"
        claimed = self.answers[0].claim if self.answers else None
        first = next((row for row in self.rows if row.rank == 1), None)
        fastest_wins = self.run.info.objective != "memory"
        if claimed and claimed.verdict is Verdict.INCONCLUSIVE and fastest_wins:
            return "what was verified beside it took no less time, as far as was measured"
        if claimed or not fastest_wins or first is None or not first.differs:
            return "the baseline is the best config found"
        dropped = self.verification.dropped if self.verification else ()
        failed = [
            record.numerics.sentence
            for record in self.run.records
            if record.numerics is not None and record.numerics.status is Status.FAILED
        ]
        reasons = [*(item.reason for item in dropped), *failed]
        what = "what was faster in the search"
        return (
            f"{what} failed when it was looked at again: {reasons[0]}" if reasons else f"{what} was not looked at again"
        )

    def belief(self, answer: Answer, option: str) -> ValueEffect | None:
        """Return what the models believe of the baseline's value of an option, in the config they take for best.

        None where they take another value for best, or know nothing.
        """
        effects = [item for item in self.explanation.effects if item.option == option] if self.explanation else []
        in_best = next((item.value for item in effects if item.in_best), None)
        today = self.run.baseline.value(option)
        if in_best != answer.config.value(option):
            return None
        return next((item for item in effects if item.value == today and not item.in_best), None)


def checked_maths(run: Run, config: Config) -> Numerics | None:
    """Return what the numerics guard found of a config; None: it was not looked at, or changes nothing of a step.

    One trial of the guard answers for all configs that change a step's maths alike.
    """
    changed = touching_maths(run.baseline, config)
    found = [
        record.numerics
        for record in run.records
        if record.numerics is not None and touching_maths(run.baseline, Config(**record.config)) == changed
    ]
    return found[-1] if found and changed else None


def gather(run: Run, explanation: Explanation | None = None) -> Evidence:
    """Read what else the run folder holds.

    Raises:
        RunFolderError: a file of it is damaged.
    """
    rows = rows_of_run(run)
    verification = _verification(run)
    return Evidence(
        run=run,
        verification=verification,
        answers=tuple(_answers(run, rows, verification)),
        explanation=explanation,
        rows=rows,
        single=sorted(rows_of_run(run, merge=False), key=lambda row: row.trial),
    )


def _verification(run: Run) -> Verification | None:
    path = run.folder.verification
    if not path.exists():
        return None
    try:
        return Verification.load(path)
    except ValueError as error:
        raise RunFolderError(f"damaged {error}") from None


def _answers(run: Run, rows: list[Row], verification: Verification | None) -> Iterator[Answer]:
    """Yield the emitted configs; of a search that emitted none, the first in rank."""
    claims = list(verification.claims()) if verification else []
    # the search writes its answers in the order of its claims
    best = _emitted(run.folder.best, BEST, claims[0] if claims else None, verification)
    if best is None:
        first = next((row for row in rows if row.rank == 1), None)
        if first is not None:
            yield Answer(role=BEST, config=first.config, path=run.folder.best)
        return
    yield best
    other = _emitted(run.folder.best_same_batch, SAME_BATCH, claims[1] if len(claims) > 1 else None, verification)
    if other is not None and other.config.difference(best.config):
        yield other


def _emitted(path: Path, role: str, claim: Claim | None, verification: Verification | None) -> Answer | None:
    """Return what a file hands out, with the claim where the file rests on it."""
    if not path.exists():
        return None
    try:
        document: dict[str, Any] = read_document(path)
        config = Config(**document.get("options", {}))
    except (ConfigError, TypeError) as error:
        raise RunFolderError(f"damaged {path}: {error}") from None
    measured = document.get("measured")
    attributions = verification.attributions if verification and claim else ()
    why = next((item for item in attributions if claim and item.winner == claim.candidate), None)
    if claim is not None and not _rests_on(measured if isinstance(measured, dict) else {}, claim, why):
        claim = why = None  # of an earlier search whose verification still lies there
    return Answer(
        role=role,
        config=config,
        path=path,
        claim=claim,
        attribution=why,
        checked=_checked(document.get("numerics")),
        notes=_notes(document.get("notes")),
    )


def _checked(table: Any) -> Numerics | None:
    """Return what a file says of the maths; None: nothing, or nothing that this version knows."""
    if not isinstance(table, dict) or table.get("status") not in list(Status):
        return None
    return Numerics(status=Status(table["status"]), reason=str(table.get("reason", "")))


def _notes(table: Any) -> tuple[str, ...]:
    lines = table.get("lines") if isinstance(table, dict) else None
    return tuple(map(str, lines)) if isinstance(lines, list) else ()


def _rests_on(measured: Mapping[str, Any], claim: Claim, why: Attribution | None) -> bool:
    """Return whether a file's figures are those of a claim, or of the smaller config that followed from it.

    By figures, since words differ between versions.
    """
    comparisons = [claim.comparison, why.confirmation.comparison if why and why.confirmation else None]
    told = {round(found.speedup, 4) for found in comparisons if found is not None}
    return measured.get("verdict") == claim.verdict.value and ("speedup" not in measured or measured["speedup"] in told)
