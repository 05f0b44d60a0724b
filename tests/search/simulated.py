"""A runner over a make-believe workload: a search runs against it in milliseconds, on no device."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autotune.documents import read_record, to_json
from autotune.facts import Facts
from autotune.numerics import Numerics, Status
from autotune.records import (
    Block,
    Failure,
    Measurement,
    Outcome,
    Peaks,
    TrialRecord,
    TrialSpec,
    start_share_s,
)
from autotune.trials.folder import write_atomically
from autotune.trials.runner import Report, silent

MIB = 1 << 20

FACTS = Facts(
    device="cpu",
    device_name="simulated",
    default_threads=2,
    native_bf16=True,
    dataset_length=2000,
    batch_structure="[float32[8, 3]]",
    sample_bytes=12,
    convolution_ranks=(4,),
    chain_refused="the model has no chain",
    model="Net",
    optimizer="SGD",
    step="loss(model(x), y)",
    sample_load_s=5e-4,
    sample_compute_s=1e-3,
    baseline={"batch_size": 32},
)


def seconds_per_sample(config: Mapping[str, Any]) -> float:
    """Return the true time: bf16 and channels_last help, larger batches a little, workers hide the loader."""
    compute = 1e-3 * (0.8 + 6.4 / config["batch_size"])
    compute *= 0.6 if config.get("precision") == "bf16" else 1.0
    compute *= 0.9 if config.get("channels_last") else 1.0
    workers = config.get("num_workers", 0)
    return compute + 5e-4 if workers == 0 else max(compute * (1 + 0.05 * workers), 5e-4 / min(workers, 2))


def measurement(config: Mapping[str, Any], sample_s: float, host: int, flags: tuple[str, ...] = ()) -> Measurement:
    batch = config["batch_size"]
    block = Block(steps=4, samples=4 * batch, wall_s=4 * batch * sample_s, wait_s=0.0)
    return Measurement(
        sample_s=sample_s,
        step_s=sample_s * batch,
        uncertainty=0.02,
        samples_per_step=float(batch),
        wait_s=0.0,
        compute_s=0.9 * sample_s * batch,
        loader_s=5e-4 * batch,
        epoch_overhead_s=0.0,
        epoch_overhead_estimated=False,
        steps_per_epoch=FACTS.dataset_length // batch,
        samples_per_epoch=FACTS.dataset_length,
        lifetime=Peaks(host=host),
        steady=Peaks(host=host),
        blocks=(block,) * 8,
        kept_from=0,
        autocorrelation=0.0,
        mean_step_s=sample_s * batch,
        p95_step_s=sample_s * batch,
        flags=flags,
        losses=(2.0, 1.9),
        updates=8,
    )


class SimulatedRunner:
    """Answers every spec; `rules` may decide otherwise for some of them."""

    def __init__(
        self,
        *,
        facts: Facts = FACTS,
        noise: float = 0.01,
        seconds: Callable[[Mapping[str, Any]], float] = seconds_per_sample,
        host_bytes: Callable[[Mapping[str, Any]], int] = lambda config: (100 + config["batch_size"]) * MIB,
        rule: Callable[[TrialSpec], Outcome | BaseException | None] = lambda spec: None,
        start: Callable[[Mapping[str, Any]], float] = lambda config: 0.0,
        maths: Callable[[TrialSpec], Numerics | Outcome] = lambda spec: Numerics(status=Status.PASSED),
    ) -> None:
        self.facts, self.noise, self.host_bytes, self.rule = facts, noise, host_bytes, rule
        self.seconds, self.start, self.maths = seconds, start, maths
        self.asked: list[TrialSpec] = []

    @property
    def configs(self) -> list[dict[str, Any]]:
        """Of the search's trials; verification windows and numerics checks apart."""
        return [dict(spec.config) for spec in self.asked if spec.kind not in ("verification", "numerics")]

    def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
        if spec.kind == "probe":
            facts = dataclasses.replace(self.facts, baseline={**self.facts.baseline, **spec.baseline})
            record = TrialRecord(number=0, kind="probe", config={}, outcome=Outcome.OK, facts=dataclasses.asdict(facts))
        else:
            self.asked.append(spec)
            record = self._answer(spec)
        path = Path(spec.record_path)
        write_atomically(path, to_json(record))
        return read_record(path)  # what a real runner returns came from disk, too

    def close(self) -> None:
        pass

    def _answer(self, spec: TrialSpec) -> TrialRecord:
        common: dict[str, Any] = {"number": spec.number, "kind": spec.kind, "config": spec.config, "wall_s": 5.0}
        ruled = self.rule(spec)
        if spec.kind == "numerics" and ruled is None:
            answer = self.maths(spec)
            if isinstance(answer, Numerics):
                return TrialRecord(**common, outcome=Outcome.OK, numerics=answer)
            ruled = answer
        if isinstance(ruled, BaseException):
            raise ruled
        host = self.host_bytes(spec.config)
        if ruled is None and host > spec.limits.host_bytes:
            ruled = Outcome.OUT_OF_MEMORY
        if ruled is not None:
            trouble = Failure(
                reason=f"planned {ruled.value}", message=f"planned {ruled.value}", traceback="their line\n"
            )
            return TrialRecord(**common, outcome=ruled, failure=trouble)
        noise = random.Random(str(sorted(spec.config.items()))).gauss(0, self.noise)
        found = measurement(spec.config, self.seconds(spec.config) * (1 + noise), host)
        start_s = self.start(spec.config)
        share_s = start_share_s(start_s, spec.planned_samples)
        found = dataclasses.replace(
            found, sample_s=found.sample_s + share_s, start_s=start_s, planned_samples=spec.planned_samples
        )
        names = ("weight",)
        return TrialRecord(**common, outcome=Outcome.OK, measurement=found, gradient_names=names)


class Listener:
    """Keeps what a search says."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.labels: list[str] = []
        self.ended = 0

    def begin(self, title_lines: Any, total_trials: int, timeout_s: float | None, after: Any = None) -> None:
        self.title = list(title_lines)

    def trial_started(self, number: int, label: str, config: Any, differs: Any) -> None:
        self.labels.append(label)

    def progress(self, message: Any) -> None:
        pass

    def trial_ended(self, record: TrialRecord, note: str) -> None:
        self.ended += 1

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finished(self) -> None:
        pass
