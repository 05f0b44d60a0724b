"""Probes and short trials in processes of their own."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

from autotune.documents import from_plain
from autotune.facts import Facts
from autotune.records import Limits, Source, TrialSpec

SCRIPTS = Path(__file__).parents[1] / "scripts"
GIB = 1 << 30


class Real:
    """Runs a script's workload on a runner; keeps what the last one printed."""

    def __init__(self, runner, folder):
        self.runner, self.folder, self.log_text = runner, folder, ""
        self._numbers = itertools.count()

    def run(self, script, kind="trial", config=None, *, timeout_s=60.0, device="cpu", baseline=None, **others):
        """Return the record; `others` are fields of the source or of the spec."""
        names = {field.name for field in dataclasses.fields(Source)}
        source = Source(script=str(script), **{name: others.pop(name) for name in names & set(others)})
        number = next(self._numbers)
        spec = TrialSpec(
            number=number,
            kind=kind,
            config=config or {},
            baseline=baseline or {},
            source=source,
            device=device,
            limits=Limits(host_bytes=8 * GIB, timeout_s=timeout_s, budget_s=0.3, budget_max_s=1.0),
            record_path=str(self.folder / f"{number}.json"),
            target=0.5,
            **others,
        )
        log = self.folder / f"{number}.log"
        record = self.runner.run(spec, log)
        self.log_text = log.read_text()
        return record

    def probe(self, script, **others) -> Facts:
        """Return the facts of a workload that must be sound."""
        record = self.run(script, "probe", **others)
        assert record.failure is None, record.failure
        return from_plain(Facts, record.facts)

    def refusal(self, script, **others):
        """Return why a workload cannot be probed."""
        record = self.run(script, "probe", **others)
        assert record.failure is not None, record.facts
        return record.failure
