"""`autotune.tune(workload)`: a whole search from Python, for notebooks and scripts, and what it comes to."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import cloudpickle
from rich.console import Console, ConsoleOptions
from rich.text import Text

from autotune.asked import wishes_from
from autotune.config import Config
from autotune.errors import WorkloadError
from autotune.records import Source
from autotune.report.evidence import Evidence, gather
from autotune.report.export import flat_records
from autotune.report.html.notebook import outcome_html
from autotune.report.html.page import write_page
from autotune.report.run import read_run
from autotune.report.summary import print_summary
from autotune.search.events import Events
from autotune.search.explain import explain_if_measured
from autotune.search.run import search_workload
from autotune.trials.folder import RunFolder
from autotune.trials.runner import IN_TRIAL
from autotune.workload import Workload


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    """What a search found. Shows itself: as text, in rich, and as HTML in a notebook."""

    best: Config | None
    """the config to apply; None: nothing was measured within the limits"""
    same_batch: Config | None
    """the best config that keeps the baseline's batch size, where `best` does not"""
    verdict: str
    """the verification's sentence on `best`; empty: not verified"""
    trials: list[dict[str, Any]]
    """a flat record for each run of a trial: `pandas.DataFrame(result.trials)`; the columns of `results --csv`"""
    report: Path
    """report.html: everything, for a browser"""
    interrupted: bool
    """whether Ctrl-C ended it early"""
    evidence: Evidence = field(repr=False)
    """what all of this is taken from"""

    def __str__(self) -> str:
        return self._text(80)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(self._text(options.max_width))

    def _repr_html_(self) -> str:
        return outcome_html(self.evidence)

    def _text(self, width: int) -> str:
        console = Console(file=io.StringIO(), width=width, color_system=None)
        print_summary(console, self.evidence, interrupted=self.interrupted)
        return cast(io.StringIO, console.file).getvalue()


class Silent:
    """Shows nothing."""

    def begin(self, *_: Any) -> None: ...

    def trial_started(self, *_: Any) -> None: ...

    def progress(self, message: Mapping[str, Any]) -> None: ...

    def trial_ended(self, *_: Any) -> None: ...

    def note(self, text: str) -> None: ...

    def finished(self) -> None: ...


def tune(
    workload: Workload,
    *,
    out: str | os.PathLike[str] = "results/tune",
    verify: str = "full",
    resume: bool = False,
    force: bool = False,
    events: Events | None = None,
    **wishes: Any,
) -> TuneResult:
    """Search the fastest settings of a workload; the result's `best` is the config to apply.

        result = autotune.tune(workload, trials=12, timeout_s=600)
        tuned = autotune.Tuned(result.best)
        pandas.DataFrame(result.trials)

    The workload travels to the trial processes by cloudpickle, so that lambdas and classes of a notebook work.

    Args:
        out: the run folder.
        events: shows what happens; None shows nothing.
        wishes: fields of `Wishes`: trials, timeout_s, baseline, device, fixed, memory_limit_bytes ("20GiB"), ...

    Raises:
        WorkloadError: the workload cannot run, cannot be sent to another process, or this is a trial already.
        UsageError: an unknown wish, one of another type or size, or a folder that cannot be used.
    """
    if os.environ.get(IN_TRIAL):
        raise WorkloadError(
            "autotune.tune() was called inside a trial: importing your module starts a search",
            hint="Put the call under: if __name__ == '__main__':",
        )
    asked = wishes_from(wishes)
    try:
        data = cloudpickle.dumps(workload)
    except Exception as error:
        raise WorkloadError(
            f"the workload cannot be sent to a trial process: {type(error).__name__}: {error}",
            hint="Open files, locks and devices inside the factories, not around them.",
        ) from error
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        path = Path(scratch) / "workload.pickle"
        path.write_bytes(data)
        source = Source(pickle=str(path))
        shown = events or Silent()
        found = search_workload(source, RunFolder(Path(out)), asked, shown, verify=verify, resume=resume, force=force)
    return result_of(found.folder, best=found.best, interrupted=found.interrupted)


def result_of(folder: RunFolder, *, best: Config | None = None, interrupted: bool = False) -> TuneResult:
    """Read what a search left in its run folder, and write its report.

    Args:
        best: as the search gave it; None: as its file says.

    Raises:
        RunFolderError: no search was begun there, or a file of it is damaged.
    """
    run = read_run(folder)
    believed = explain_if_measured(run.info, run.screening)
    evidence = gather(run, believed)
    answers = evidence.answers
    return TuneResult(
        best=answers[0].config if best is None and answers else best,
        same_batch=answers[1].config if len(answers) > 1 else None,
        verdict=answers[0].sentence if answers else "",
        trials=flat_records(evidence.single),
        report=write_page(run, believed),
        interrupted=interrupted,
        evidence=evidence,
    )
