"""The memory cap: trials under 25 % and 50 % of the card, at batch sizes that double until one does not fit.

What runs under the cap must have stayed in it, by torch's own count and by the driver's; the first that does not fit
must end as out of memory, and the next trial must run as if nothing had been.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from parts import ROOT, Part

from autotune.records import Outcome, Source, TrialRecord
from autotune.search.setup import Prepared, Wishes, prepare
from autotune.search.specs import Specs
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner

SHARES = (0.25, 0.5)
FIRST_BATCH = 64
GIB = 1 << 30
DRY_FIRST_BATCH = 32
DRY_ROOM = 40 << 20  # bytes of host memory beyond what the first batch size needs: twice the batch does not fit


class Caps:
    """Runs trials of one workload under one cap after the other."""

    def __init__(self, part: Part, prepared: Prepared, runner: ForkServerRunner, folder: RunFolder) -> None:
        self.part, self.prepared, self.runner, self.folder = part, prepared, runner, folder
        self.rows: list[dict[str, Any]] = []
        self.smallest = self.first = DRY_FIRST_BATCH if part.dry_run else FIRST_BATCH
        """the batch size to begin with: what fits under one cap fits under the next"""

    def dry_cap(self) -> tuple[float, int]:
        """Return the cap of a dry run, bytes of host memory, by what a trial under the usual one needs here."""
        usual = self.prepared.limits.host_bytes
        record = self._trial(self._specs(), 1.0, usual, self.smallest)
        if record.measurement is None:
            raise RuntimeError(f"a trial that has all the memory ended {record.outcome.value}")
        cap = record.measurement.lifetime.needed(self.prepared.accelerator) + DRY_ROOM
        return cap / usual, cap

    def prove(self, share: float, cap: int) -> bool:
        """Double the batch size under a cap until it does not fit; return whether all was as it must be."""
        specs = self._specs(**({"device_bytes": cap} if self.prepared.accelerator else {"host_bytes": cap}))
        sound, largest, size = True, 0, self.first
        while self.part.left_s() > 20 and size <= (self.prepared.facts.dataset_length or 0):
            record = self._trial(specs, share, cap, size)
            sound = sound and self._as_it_must_be(record, cap)
            if not record.outcome.measured:
                break
            largest, size = size, 2 * size
            self.first = largest
        else:
            ended = "the data have no more" if self.part.left_s() > 20 else "the time was up"
            self.part.say(f"memory: {share:.0%}, {cap / GIB:.1f} GiB: no batch up to {largest} was too large; {ended}")
            return sound
        # the trial after it has the memory again
        after = self._trial(specs, share, cap, self.smallest)
        peak = max((row["needed_gib"] for row in self.rows if row["share"] == share and row["needed_gib"]), default=0)
        self.part.say(
            f"memory: {share:.0%}, {cap / GIB:.2f} GiB: batch {largest} ran with a peak of {peak:.2f} GiB, "
            f"{size} ended {record.outcome.value}, and the next trial {after.outcome.value}"
        )
        return sound and after.outcome.measured

    def _specs(self, **cap: int) -> Specs:
        limits = replace(self.prepared.limits, **cap, budget_s=2.0, budget_max_s=4.0, timeout_s=90.0)
        return Specs(replace(self.prepared, limits=limits), Wishes(target=0.2), self.folder)

    def _trial(self, specs: Specs, share: float, cap: int, size: int) -> TrialRecord:
        number = len(self.rows) + 1
        config = self.prepared.space.canonical(self.prepared.space.baseline.replace(batch_size=size))
        record = self.runner.run(specs.make(number, config), self.folder.log(number))
        specs.learn(record, config)
        found = record.measurement
        peaks = found.lifetime if found else None
        row: dict[str, Any] = {
            "share": share,
            "cap_gib": f"{cap / GIB:.3f}",
            "batch_size": size,
            "outcome": record.outcome.value,
            "reason": record.failure.reason if record.failure else "",
            "needed_gib": peaks.needed(self.prepared.accelerator) / GIB if peaks else 0,
            "flags": " ".join(found.flags) if found else "",
            "wall_s": f"{record.wall_s:.1f}",
        }
        for name in ("allocated", "reserved", "process", "outside_torch", "host"):
            row[f"{name}_gib"] = f"{getattr(peaks, name) / GIB:.3f}" if peaks else ""
        row["steady_reserved_gib"] = f"{found.steady.reserved / GIB:.3f}" if found else ""
        self.rows.append(row)
        self.part.table("memory", self.rows)
        print(row, flush=True)
        return record

    def _as_it_must_be(self, record: TrialRecord, cap: int) -> bool:
        found = record.measurement
        if found is None:
            return record.outcome is Outcome.OUT_OF_MEMORY
        held = found.lifetime.reserved if self.prepared.accelerator else found.lifetime.host
        if held > cap:
            self.part.say(f"memory: NOT KEPT: {held / GIB:.2f} GiB were held under a cap of {cap / GIB:.2f} GiB")
        return held <= cap


def main() -> int:
    part = Part.begin(("char_transformer",))
    source = Source(script=str(ROOT / "examples" / f"{part.workloads[0]}.py"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        runner = ForkServerRunner(folder.server_log)
        try:
            prepared = prepare(source, Wishes(), runner, folder)
            bench = Caps(part, prepared, runner, folder)
            total = prepared.facts.device_memory_bytes
            dry = part.dry_run or total is None
            caps = [bench.dry_cap()] if dry else [(share, int(share * total)) for share in SHARES]
            sound = [bench.prove(share, cap) for share, cap in caps]
        finally:
            runner.close()
    return 0 if all(sound) else 1


if __name__ == "__main__":
    raise SystemExit(main())
