"""The plot of a table: regret against trials and against seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from play import Played

mpl.use("Agg")  # no display
from matplotlib import pyplot as plt

LEAST = 0.1  # percent: what a logarithmic axis shows as none


def plot(example: str, searches: dict[str, list[Played]], path: Path) -> None:
    figure, (by_trials, by_seconds) = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for name, plays in searches.items():
        longest = max(len(played.regret) for played in plays)
        trials = np.arange(1, longest + 1)
        _band(by_trials, name, trials, np.array([[_after(played, count) for count in trials] for played in plays]))
        until = float(np.median([played.seconds[-1] for played in plays]))
        seconds = np.linspace(min(played.seconds[0] for played in plays), until, 60)
        _band(by_seconds, name, seconds, np.array([[_by(played, second) for second in seconds] for played in plays]))
    by_trials.set(xlabel="trials", ylabel="regret, % (median and quartiles)", yscale="log")
    by_seconds.set(xlabel="seconds of trials", yscale="log")
    by_trials.legend()
    figure.suptitle(f"{example}: time of the chosen config above the best of the table")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _band(axes: Any, name: str, x: Any, regrets: Any) -> None:
    percent = np.clip(100 * regrets, LEAST, None)
    low, middle, high = np.quantile(percent, [0.25, 0.5, 0.75], axis=0, method="nearest")
    (line,) = axes.plot(x, middle, label=name)
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def _after(played: Played, trials: int) -> float:
    return played.regret[min(trials, len(played.regret)) - 1]


def _by(played: Played, seconds: float) -> float:
    """Return the regret of what was known after so many seconds; nothing was before the first trial's end."""
    done = int(np.searchsorted(played.seconds, seconds, side="right"))
    return played.regret[done - 1] if done else np.inf
