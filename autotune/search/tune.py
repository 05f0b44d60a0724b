"""`autotune.tune(workload)`: a whole search from Python, for notebooks and scripts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle

from autotune.errors import UsageError, WorkloadError
from autotune.records import Source
from autotune.search.events import Events
from autotune.search.run import Result, search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from autotune.trials.runner import IN_TRIAL
from autotune.workload import Workload


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
) -> Result:
    """Search the fastest settings of a workload; the result's `best` is the config to apply.

        result = autotune.tune(workload, trials=12, timeout_s=600)
        tuned = autotune.Tuned(result.best)

    The workload travels to the trial processes by cloudpickle, so that lambdas and classes of a notebook work.

    Args:
        out: the run folder.
        events: shows what happens; None shows nothing.
        wishes: fields of `Wishes`: trials, timeout_s, baseline, device, fixed, memory_limit_bytes, ...

    Raises:
        WorkloadError: the workload cannot run, cannot be sent to another process, or this is a trial already.
        UsageError: an unknown wish, or a folder that cannot be used.
    """
    if os.environ.get(IN_TRIAL):
        raise WorkloadError(
            "autotune.tune() was called inside a trial: importing your module starts a search",
            hint="Put the call under: if __name__ == '__main__':",
        )
    try:
        asked = replace(Wishes(), **wishes)
    except TypeError as error:
        raise UsageError(f"tune(): {error}") from None
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
        return search_workload(source, RunFolder(Path(out)), asked, shown, verify=verify, resume=resume, force=force)
