"""Any two answers against each other, by the tool's own verification: interleaved windows in fresh processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.config import Config
from autotune.records import Source, TrialRecord
from autotune.search.setup import Prepared, Wishes
from autotune.search.specs import Specs
from autotune.search.verification import QUICK, THOROUGH, Claim, sentence
from autotune.search.verification.claim import BASELINE, CANDIDATE, claim
from autotune.search.verification.windows import Bench
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner

COMPILED = Path(__file__).resolve().parent / "compiled.py"
WINDOW_BLOCKS = 8  # as the tool's own verification windows have
DESIGNS = {"quick": QUICK, "full": THOROUGH}


@dataclass(frozen=True)
class Arm:
    """What is run: a config, eager or compiled."""

    config: Config
    compile_mode: str = ""


class Verifier:
    """Verifies answers for one example."""

    def __init__(self, prepared: Prepared, wishes: Wishes, folder: RunFolder, runner: ForkServerRunner) -> None:
        self._prepared, self._wishes, self._folder, self._runner = prepared, wishes, folder, runner
        self._number = 0

    def compare(self, reference: Arm, arm: Arm, how: str) -> dict[str, Any]:
        """Return the verdict on `arm` against `reference`, as plain data."""
        if reference == arm:
            return {"verdict": "identical", "sentence": "the same config", "ratio": [1.0, 1.0, 1.0], "rounds": 0}
        for side in (reference, arm):
            refusal = self._prepared.space.legal(side.config)
            if refusal is not None:
                return _nothing(f"cannot run here: {refusal}")
        specs = {BASELINE: self._specs(reference), CANDIDATE: self._specs(arm)}

        def measure(config: Config, label: str) -> TrialRecord:
            # the label ends with the arm: both may have one config
            side = specs[label.removesuffix(", again").rpartition(": ")[2]]
            self._number += 1
            spec = side.make(self._number, config, kind="verification", fixed_blocks=WINDOW_BLOCKS)
            record = self._runner.run(spec, self._folder.log(self._number))
            side.learn(record, config)
            found = record.measurement
            print(f"  {label}: {1e6 * found.sample_s:.0f} us/sample" if found else f"  {label}: {record.failure}")
            return record

        design = DESIGNS[how]
        found = claim(Bench(measure), reference.config, arm.config, design, alpha=design.alpha, seed=self._wishes.seed)
        return _plain(found) | {"cpu": self._prepared.machine.cpu}  # may be another than the answers were found on

    def _specs(self, arm: Arm) -> Specs:
        prepared = self._prepared
        if arm.compile_mode:
            source = Source(script=str(COMPILED), arguments=(prepared.source.script, arm.compile_mode))
            prepared = replace(prepared, source=source)
        return Specs(prepared, self._wishes, self._folder)


def _plain(found: Claim) -> dict[str, Any]:
    comparison = found.comparison
    windows: Sequence[Any] = found.windows
    return {
        "verdict": found.verdict.value,
        "sentence": sentence(found),
        "ratio": [comparison.speedup, comparison.lower, comparison.upper] if comparison else None,
        "rounds": comparison.pairs if comparison else 0,
        "windows": [[window.arm, window.round, window.sample_s, list(window.flags)] for window in windows],
    }


def _nothing(why: str) -> dict[str, Any]:
    return {"verdict": "inconclusive", "sentence": why, "ratio": None, "rounds": 0}
