"""How often the verification is wrong, and how often it finds a real gain, on machines with known noise.

Every row is a noise model; every figure comes from whole claims (looks after 6, 9 and 12 ABBA rounds) of synthetic
windows, so no device and no process is needed:

    python results/search/aa/make.py            # writes aa.csv and README.md beside itself, about 2 minutes

`naive` is what a t test of eight windows of one config after eight of the other would claim.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
from scipy.stats import ttest_1samp

from autotune.config import Config
from autotune.records import Measurement, Outcome, Peaks, TrialRecord
from autotune.search.verification import THOROUGH, Verdict
from autotune.search.verification.claim import Claim, claim
from autotune.search.verification.windows import Bench

CLAIMS = 10_000  # a row; the standard error of a share of 5 % is then 0.2 %
GAIN_CLAIMS = 400
MAX_WINDOWS = 2 * THOROUGH.looks[-1]
BASELINE, CANDIDATE = Config(batch_size=32), Config(batch_size=32, channels_last=True)
FOLDER = Path(__file__).parent

Noise = Callable[[np.random.Generator], np.ndarray]
"""log errors of successive windows"""


@dataclass(frozen=True)
class Machine:
    name: str
    noise: Noise


def white(sd: float) -> Noise:
    return lambda rng: rng.normal(0, sd, MAX_WINDOWS)


def outliers(sd: float) -> Noise:
    """A tenth of the windows is disturbed, and takes up to half as long again."""
    return lambda rng: (
        rng.normal(0, sd, MAX_WINDOWS) + (rng.random(MAX_WINDOWS) < 0.1) * rng.uniform(0, math.log(1.5), MAX_WINDOWS)
    )


def slowing(sd: float, slope: float) -> Noise:
    return lambda rng: white(sd)(rng) + slope * np.arange(MAX_WINDOWS)


def wandering(sd: float, step: float) -> Noise:
    return lambda rng: white(sd)(rng) + np.cumsum(rng.normal(0, step, MAX_WINDOWS))


def autoregressive(sd: float, rho: float) -> Noise:
    """Slow changes of the machine: a disturbance that lasts several windows."""

    def noise(rng: np.random.Generator) -> np.ndarray:
        shocks = rng.normal(0, 1, MAX_WINDOWS)
        for index in range(1, MAX_WINDOWS):
            shocks[index] = rho * shocks[index - 1] + math.sqrt(1 - rho**2) * shocks[index]
        return sd * shocks

    return noise


def stepping(sd: float, change: float) -> Noise:
    """The machine changes its speed once, at a moment of its own choosing: it throttles, or a neighbour comes."""
    return lambda rng: white(sd)(rng) + change * (np.arange(MAX_WINDOWS) >= rng.integers(1, MAX_WINDOWS))


MACHINES = (
    Machine("quiet: 1 % noise", white(0.01)),
    Machine("3 % noise", white(0.03)),
    Machine("5 % noise", white(0.05)),
    Machine("shared: 10 % noise", white(0.10)),
    Machine("3 % noise, a tenth of the windows up to 1.5x", outliers(0.03)),
    Machine("2 % noise, slowing by 1 % a window", slowing(0.02, 0.01)),
    Machine("2 % noise, random walk of 1 % a window", wandering(0.02, 0.01)),
    Machine("2 % noise, random walk of 3 % a window", wandering(0.02, 0.03)),
    Machine("5 % noise, autocorrelation 0.6", autoregressive(0.05, 0.6)),
    Machine("2 % noise, one step of 15 %", stepping(0.02, 0.15)),
)


def measure_from(errors: np.ndarray, gain: float) -> Callable[[Config, str], TrialRecord]:
    """Return a `measure` that gives the baseline one second a sample and the candidate 1 / `gain`."""
    rest = iter(range(len(errors)))

    def measure(config: Config, label: str) -> TrialRecord:
        index = next(rest)
        sample_s = math.exp(errors[index]) / (gain if config == CANDIDATE else 1.0)
        found = Measurement(
            sample_s=sample_s,
            step_s=32 * sample_s,
            uncertainty=0.0,
            samples_per_step=32.0,
            wait_s=0.0,
            compute_s=None,
            loader_s=None,
            epoch_overhead_s=0.0,
            epoch_overhead_estimated=False,
            steps_per_epoch=None,
            samples_per_epoch=None,
            lifetime=Peaks(),
            steady=Peaks(),
            blocks=(),
            kept_from=0,
            autocorrelation=0.0,
            mean_step_s=32 * sample_s,
            p95_step_s=32 * sample_s,
            flags=(),
            losses=(),
            updates=10,
        )
        return TrialRecord(number=index, config=dict(config), outcome=Outcome.OK, measurement=found)

    return measure


def claims(machine: Machine, gain: float, count: int) -> Iterator[Claim]:
    for seed in range(count):
        errors = machine.noise(np.random.default_rng(seed))
        bench = Bench(measure_from(errors, gain), clock=lambda: 0.0)
        yield claim(bench, BASELINE, CANDIDATE, THOROUGH, alpha=THOROUGH.alpha, seed=seed)


def naive_share(machine: Machine, count: int) -> float:
    """Return how often eight windows after eight others are called different."""
    errors = np.array([machine.noise(np.random.default_rng(seed))[:16] for seed in range(count)])
    return float(np.mean(ttest_1samp(errors[:, :8] - errors[:, 8:], 0.0, axis=1).pvalue < 0.05))


def row(machine: Machine) -> dict[str, str]:
    equal = list(claims(machine, 1.0, CLAIMS))
    shares = {verdict: sum(found.verdict is verdict for found in equal) / CLAIMS for verdict in Verdict}
    found = {
        "machine": machine.name,
        "false claims": f"{shares[Verdict.FASTER] + shares[Verdict.SLOWER]:.1%}",
        "same": f"{shares[Verdict.SAME]:.0%}",
        "inconclusive": f"{shares[Verdict.INCONCLUSIVE]:.0%}",
        "rounds": f"{np.mean([item.looks[-1].pairs for item in equal]):.1f}",
        "naive false claims": f"{naive_share(machine, CLAIMS):.0%}",
    }
    for gain in (1.05, 1.10, 1.20):
        real = list(claims(machine, gain, GAIN_CLAIMS))
        share = sum(item.verdict is Verdict.FASTER for item in real) / GAIN_CLAIMS
        found[f"finds {gain:.2f}x"] = f"{share:.0%}"
    return found


def main() -> None:
    started = time.monotonic()
    rows = [row(machine) for machine in MACHINES]
    with (FOLDER / "aa.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    table = [list(rows[0]), ["---"] * len(rows[0]), *(list(item.values()) for item in rows)]
    lines = "\n".join("| " + " | ".join(cells) + " |" for cells in table)
    versions = f"Python {sys.version.split()[0]}, numpy {np.__version__}, SciPy {scipy.__version__}"
    (FOLDER / "README.md").write_text(TEXT.format(table=lines, claims=CLAIMS, gains=GAIN_CLAIMS, versions=versions))
    print(lines)
    print(f"{time.monotonic() - started:.0f} s")


TEXT = """# How often the verification is wrong

Simulated windows of two equal configs on machines with known noise, {claims} claims a row, each with looks after 6, 9
and 12 interleaved rounds. *False claims*: the share called faster or slower although nothing differs; the design
allows 5 %. *Naive*: a t test of eight windows of one config after eight of the other. *Finds*: the share of {gains}
claims that call a real gain of that size faster.

{table}

Disturbances that last a few windows (autocorrelation) are the one case in which the design's 5 % becomes 6 %: the
pairs of neighbouring rounds are then not independent.

Made by `python results/search/aa/make.py` ({versions}). Seeds are the numbers of the claims.
"""


if __name__ == "__main__":
    main()
