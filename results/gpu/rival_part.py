"""pytorch-autotune and autotune on the same workload for the same wall time, and both answers measured alike.

For each workload: it tunes, we tune (at the same batch size, which it does not change), then baseline and both
answers are measured in turn: by our protocol's windows in fresh processes, and by a plain loop.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parts import FOLDER, ROOT, Part, call, search
from workloads import NAMES

from autotune.config import Config
from autotune.records import Source, TrialRecord
from autotune.search.setup import Prepared, Wishes, prepare
from autotune.search.specs import Specs
from autotune.search.verification.schedule import mirrored
from autotune.search.verification.statistics import compare
from autotune.search.verification.windows import Bench
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner

TUNE_S, DRY_TUNE_S = 120.0, 20.0  # the first is what that tool calls fast
ROUNDS, PLAIN_ROUNDS = 6, 2
PLAIN_S = 100.0  # kept for the plain loop
WINDOW_BLOCKS = 8
BASELINE, OURS, THEIRS = "baseline", "autotune", "pytorch-autotune"
SCRIPT = FOLDER / "workloads.py"
COMPILED = ROOT / "results/search/peers/compiled.py"
LOADER = "num_workers,prefetch_factor,persistent_workers,pin_memory,device_prefetch,drop_last"
"""options that do nothing for data that lie on the device"""
WISHES = Wishes(keep_batch=True)


@dataclass(frozen=True)
class Arm:
    """An answer: a config, and a mode of torch.compile where it is none of our options."""

    config: Config
    mode: str = ""


class Bout:
    """One workload."""

    def __init__(self, part: Part, name: str, seconds: float) -> None:
        self.part, self.name = part, name
        self.ends_at = time.monotonic() + seconds
        self.found: dict[str, Any] = {"workload": name}
        os.environ["GPU_WORKLOAD"] = name
        os.environ["GPU_TINY"] = "1" if part.dry_run else "0"

    def left_s(self) -> float:
        return self.ends_at - time.monotonic()

    def keep(self, **found: Any) -> None:
        """Note what was found, at once: the time may end at any moment."""
        self.found |= found
        (self.part.out / f"{self.name}.json").write_text(json.dumps(self.found, indent=1) + "\n")

    def they_tune(self, seconds: float) -> str:
        """Let the rival tune; return why there is no answer, or nothing."""
        if importlib.util.find_spec("pytorch_autotune") is None:
            return "its wheel is not on PYTHONPATH"
        answer = self.part.out / f"{self.name}-theirs.json"
        answer.unlink(missing_ok=True)
        status = call([str(FOLDER / "rival_tuner.py"), f"{seconds:.0f}", str(answer)], timeout=2 * seconds + 60)
        if not answer.exists():
            return f"it ended with status {status}"
        self.keep(theirs=json.loads(answer.read_text()))
        return ""

    def we_tune(self, seconds: float) -> str:
        """Search with the tool itself; return why there is no answer, or nothing."""
        folder = RunFolder(self.part.out / self.name)
        command = ["-m", "autotune", "search", str(SCRIPT), "--out", str(folder.path), "--force", "--keep-batch"]
        command += ["--timeout", f"{seconds:.0f}", "--verify", "none", "--quick", "--trials", "60", "--exclude", LOADER]
        if self.part.dry_run:
            command += ["--trials", "3", "--trial-budget", "1", "--exclude", f"{LOADER},compile_mode"]
        status = search(self.part, command)
        if not folder.best.exists():
            return f"status {status}"
        self.keep(ours=dict(Config.load(folder.best)))
        return ""

    def arms(self, prepared: Prepared) -> dict[str, Arm]:
        space = prepared.space
        arms = {BASELINE: Arm(space.baseline)}
        if "theirs" in self.found:
            options = {key: value for key, value in self.found["theirs"]["options"].items() if key in space.choices}
            mode = self.found["theirs"]["compile_mode"]
            arms[THEIRS] = Arm(space.canonical(space.baseline.replace(**options)), mode)
        if "ours" in self.found:
            arms[OURS] = Arm(space.canonical(Config(**self.found["ours"])))
        return arms

    def by_protocol(
        self, prepared: Prepared, arms: dict[str, Arm], runner: ForkServerRunner, folder: RunFolder
    ) -> None:
        """Measure windows of all arms in turn, as a verification does."""
        specs = {name: self._specs(prepared, arm, folder) for name, arm in arms.items()}
        numbers = iter(range(1, 1000))

        def measure(config: Config, label: str) -> TrialRecord:
            name = label.removesuffix(", again").rpartition(": ")[2]
            number = next(numbers)
            spec = specs[name].make(number, config, kind="verification", fixed_blocks=WINDOW_BLOCKS)
            record = runner.run(spec, folder.log(number))
            specs[name].learn(record, config)
            found = record.measurement
            print(
                f"  {label}: {1e3 * found.step_s:.2f} ms a step" if found else f"  {label}: {record.failure}",
                flush=True,
            )
            return record

        bench, windows = Bench(measure), []
        for index, order in enumerate(mirrored(list(arms), 1 if self.part.dry_run else ROUNDS, seed=0)):
            if index and self.left_s() < PLAIN_S:
                break
            for name in order:
                window = bench.take(arms[name].config, stage="rival", round=index, rounds=ROUNDS, arm=name)
                windows.append({"round": index, "arm": name, "step_ms": 1e3 * (window.step_s or math.nan)})
                windows[-1] |= {"flags": " ".join(window.flags), "failure": window.failure}
            self.part.table(f"{self.name}-windows", windows)
            self.keep(protocol=compared((item["round"], item["arm"], item["step_ms"]) for item in windows))

    def _specs(self, prepared: Prepared, arm: Arm, folder: RunFolder) -> Specs:
        if arm.mode:
            source = Source(script=str(COMPILED), arguments=(str(SCRIPT), arm.mode))
            prepared = replace(prepared, source=source)
        return Specs(prepared, WISHES, folder)

    def by_plain_loop(self, arms: dict[str, Arm]) -> None:
        """Time all arms in turn by the plain loop."""
        rows: list[dict[str, Any]] = []
        for index, order in enumerate(mirrored(list(arms), 1 if self.part.dry_run else PLAIN_ROUNDS, seed=1)):
            if index and self.left_s() < PLAIN_S / PLAIN_ROUNDS:
                break
            for name in order:
                command = [str(FOLDER / "plain_loop.py"), json.dumps(dict(arms[name].config)), arms[name].mode]
                done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
                print(f"  plain loop, {name}: {done.stdout.strip() or done.stderr[-2000:]} ms a step", flush=True)
                step_ms = float(done.stdout.split()[-1]) if done.returncode == 0 else math.nan
                rows.append({"round": index, "arm": name, "step_ms": step_ms})
            self.part.table(f"{self.name}-plain", rows)
            self.keep(plain=compared((item["round"], item["arm"], item["step_ms"]) for item in rows))

    def tell_choices(self, refused: str) -> None:
        theirs = self.found.get("theirs")
        self.part.say(
            f"rival: {self.name}: {THEIRS} chose {theirs['label'] if theirs else f'nothing ({refused})'}; {OURS} chose "
            + ", ".join(f"{key}={value}" for key, value in self.found.get("ours", {}).items() if key != "batch_size")
        )

    def tell(self, how: str) -> None:
        """Say what was found by "protocol" or by "plain"; at once, for the time may end before the other."""
        if how in self.found:
            ratios = "; ".join(f"{name} {text}" for name, text in self.found[how]["told"].items())
            self.part.say(f"rival: {self.name}, {how}: {ratios}")


def compared(seen: Iterable[tuple[int, str, float]]) -> dict[str, Any]:
    """Return the ratios of the arms, with their intervals, from (round, arm, milliseconds a step)."""
    times: dict[str, dict[int, float]] = {}
    for round_, arm, step_ms in seen:
        if not math.isnan(step_ms):
            times.setdefault(arm, {})[round_] = step_ms
    told = {arm: f"{math.exp(sum(map(math.log, of.values())) / len(of)):.2f} ms" for arm, of in times.items()}
    for slower, faster in ((BASELINE, THEIRS), (BASELINE, OURS), (THEIRS, OURS)):
        rounds = sorted(times.get(slower, {}).keys() & times.get(faster, {}).keys())
        pairs = [(times[slower][index], times[faster][index]) for index in rounds]
        if len(pairs) > 1:
            found = compare(*zip(*pairs, strict=True))
            told[f"{faster} over {slower}"] = f"{found.speedup:.2f}x ({found.lower:.2f}-{found.upper:.2f})"
        elif pairs:
            told[f"{faster} over {slower}"] = f"{pairs[0][0] / pairs[0][1]:.2f}x (one round)"
    return {"told": told, "ms": times}


def main() -> int:
    part = Part.begin(NAMES, dry=NAMES[2:])
    tune_s, whole = DRY_TUNE_S if part.dry_run else TUNE_S, True
    for index, name in enumerate(part.workloads):
        bout = Bout(part, name, (part.left_s() - 5) / (len(part.workloads) - index))
        refused = bout.they_tune(tune_s)
        print(refused, flush=True)
        failed = bout.we_tune(tune_s)
        whole = whole and not failed
        bout.tell_choices(refused)
        with tempfile.TemporaryDirectory() as scratch:
            folder = RunFolder(Path(scratch))
            folder.create()
            runner = ForkServerRunner(folder.server_log)
            try:
                prepared = prepare(Source(script=str(SCRIPT)), WISHES, runner, folder)
                arms = bout.arms(prepared)
                bout.by_protocol(prepared, arms, runner, folder)
            finally:
                runner.close()
        bout.tell("protocol")
        bout.by_plain_loop(arms)
        bout.tell("plain")
    return 0 if whole else 1


if __name__ == "__main__":
    raise SystemExit(main())
