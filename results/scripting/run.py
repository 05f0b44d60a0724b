"""What do hooks cost a script's step? `autotune run` against plain Python, and a hand-over of a trial.

    python results/scripting/run.py                  # 30 pairs of blocks of two models; about two minutes

One loop in one process trains in blocks, plain and with everything of `autotune run` in place, in ABBA order: two
processes of one script differ by more than what is looked for. Blocks are timed in CPU time, which other programs on
the machine disturb less than wall time. A hand-over is the way of a request for a batch to the measurement and of the
batch back to the script. scripting.csv and scripting.md are written.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from greenlet import getcurrent, greenlet
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.config import Config
from autotune.machine import Machine, versions
from autotune.scripting.driver import SETTLE_AFTER
from autotune.scripting.run import AppliedConfig

FOLDER = Path(__file__).resolve().parent
PROMISED = 0.01
HAND_OVERS = 100_000
BLOCK_STEPS = 100
CALLS, PASSES = 20_000, 15
STUDENT_T = 2.05  # 0.975 quantile at about 30 degrees of freedom


def make_loop(width: int) -> Callable[[int], None]:
    """Return what trains a small network for so many steps, as a script does."""
    torch.manual_seed(0)
    layers = [nn.Linear(width, width), nn.ReLU()] * 3
    model = nn.Sequential(*layers, nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(8192, width), torch.randn(8192, 1))
    loader = DataLoader(data, batch_size=32, shuffle=True)

    def train(steps: int) -> None:
        for done, (inputs, target) in enumerate(loader, 1):
            loss = nn.functional.mse_loss(model(inputs), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if done == steps:
                return

    return train


def plain_s(train: Callable[[int], None]) -> float:
    """Return the CPU seconds of a step without anything of ours."""
    train(SETTLE_AFTER)
    began = time.process_time()
    train(BLOCK_STEPS)
    return (time.process_time() - began) / BLOCK_STEPS


def hooked_s(train: Callable[[int], None]) -> float:
    """Return the same under `autotune run`, once it has found the model."""
    with AppliedConfig(Config(), None, lambda _: None):
        train(SETTLE_AFTER)
        began = time.process_time()
        train(BLOCK_STEPS)
        return (time.process_time() - began) / BLOCK_STEPS


def hand_over_s() -> float:
    """Return the seconds of one hand-over to the other side and back."""
    protocol = getcurrent()

    def script() -> None:
        while True:
            protocol.switch(None)

    held = greenlet(script)
    held.switch()
    began = time.process_time()
    for _ in range(HAND_OVERS):
        held.switch(None)
    return (time.process_time() - began) / HAND_OVERS


class Nothing(nn.Module):
    """A model whose call costs nothing but the call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, inputs: object) -> object:
        return inputs


def call_s() -> float:
    """Return the seconds that the hooks add to a call of the model: all that they do in a step once it is found."""
    model = Nothing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model.weight.grad = torch.zeros(())

    def calls() -> float:
        began = time.process_time()
        for _ in range(CALLS):
            model(None)
        return (time.process_time() - began) / CALLS

    added = []
    for _ in range(PASSES):
        plain = calls()
        with AppliedConfig(Config(), None, lambda _: None):
            for _ in range(SETTLE_AFTER):
                model(None)
                optimizer.step()
            added.append(calls() - plain)
    return statistics.median(added)


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean of paired ratios and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = STUDENT_T * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    lines = ["# What hooks cost a script's step", "", "Made by `python results/scripting/run.py`.", ""]
    lines += [
        "| network | CPU time of a step, plain | with the hooks of `autotune run`: ratio (95 %) |",
        "|---|---|---|",
    ]
    for width in (64, 256):
        train = make_loop(width)
        train(BLOCK_STEPS)
        pairs = []
        for number in range(args.pairs):
            order = (plain_s, hooked_s) if number % 2 == 0 else (hooked_s, plain_s)
            found = {arm: arm(train) for arm in order}
            pairs.append((found[plain_s], found[hooked_s]))
            rows.append({"width": width, "pair": number, "plain_s": found[plain_s], "hooked_s": found[hooked_s]})
        mean, low, high = interval([hooked / plain for plain, hooked in pairs])
        middle = statistics.median(plain for plain, _ in pairs)
        lines.append(
            f"| MLP of width {width}, batch 32 | {1e6 * middle:.0f} us | {mean:.3f} ({low:.3f} to {high:.3f}) |"
        )
        print(lines[-1], flush=True)
    lines += ["", f"A hand-over and back takes {1e6 * hand_over_s():.1f} us of CPU time; a trial has one a step.", ""]
    added_s = call_s()
    lines += [
        f"The hooks of `autotune run` add {1e6 * added_s:.1f} us of CPU time to a call of the model, nothing else:"
    ]
    lines += [f"1 % of a step of {1e3 * added_s / PROMISED:.2f} ms. At most {PROMISED:.0%} a step is promised.", ""]
    machine = Machine.read()
    where = f"{machine.cpu}, {machine.usable_cores:g} usable cores, torch {versions()['torch']}"
    lines.append(f"{where}; other programs ran on the machine.")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "scripting.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with (args.out / "scripting.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
