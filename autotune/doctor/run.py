"""The steering side of the doctor: one child process, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotune.config import Config
from autotune.doctor.findings import Diagnosis
from autotune.documents import from_plain
from autotune.errors import WorkloadError
from autotune.machine import available_bytes
from autotune.options.base import Value
from autotune.records import Limits, Outcome, Source, TrialSpec
from autotune.search.setup import HOST_SHARE, refusal
from autotune.trials.folder import RunFolder
from autotune.trials.runner import Report, Runner, silent

TIMEOUT_S = 600.0
WINDOW_S = 6.0


def diagnose(
    source: Source,
    folder: RunFolder,
    runner: Runner,
    *,
    config: Config | None = None,
    baseline: Mapping[str, Value] | None = None,
    device: str = "",
    seed: int = 0,
    report: Report = silent,
) -> Diagnosis:
    """Let the doctor look at a workload, as it runs today or under `config`.

    Raises:
        ScriptError: the user's code failed; carries its traceback.
        WorkloadError: the workload cannot be trained as it is.
    """
    if source.unmodified:
        raise WorkloadError(
            f"{Path(source.script).name} has no workload, and the doctor looks into the training step itself",
            hint="Give it a Workload, or functions build_model() and build_dataset() (see the README), or name yours: "
            "--model make_net --dataset load_data",
        )
    spec = TrialSpec(
        number=0,
        kind="doctor",
        config=dict(config or {}),
        baseline=dict(baseline or {}),
        source=source,
        device=device,
        limits=Limits(
            host_bytes=int(HOST_SHARE * available_bytes()),
            timeout_s=TIMEOUT_S,
            budget_s=WINDOW_S,
            budget_max_s=5 * WINDOW_S,
        ),
        record_path=str(folder.record(0).resolve()),
        seed=seed,
    )
    log = folder.log(0)
    record = runner.run(spec, log, report)
    if record.outcome is not Outcome.OK or record.diagnosis is None:
        raise refusal(record, source, Path(log))
    found: Diagnosis = from_plain(Diagnosis, record.diagnosis)
    return found
