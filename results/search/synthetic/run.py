"""Compares samplers on synthetic instances: plays what has not been played, then writes the table and its plot.

    python results/search/synthetic/run.py                          # everything; under an hour on one core
    python results/search/synthetic/run.py --strategies tpe --kinds plain --instances 4

Scores are kept in scores.csv, one line a search and look, so that an interrupted run goes on where it stopped;
delete it to begin anew.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from instances import KINDS, Instance
from options import toy_options
from play import play

HERE = Path(__file__).parent
SCORES = HERE / "scores.csv"
LOOKS = (10, 20, 30)
STRATEGIES = ("structured", "staged", "gp", "tpe", "random")
FIRST = 200  # number of the first instance: the sampler's constants were chosen on some below a hundred
INSTANCES = {"plain": 40}
OTHERWISE = 24  # instances of a set
FEWER = {"gp": 10}  # instances of strategies that take long to propose
FIELDS = ("kind", "strategy", "instance", "trials", "regret", "hypervolume", "lost", "seconds")
BROKEN = ("strong interactions", "jumping batches", "curved memory", "broken")
POOLED = "these four together"
Key = tuple[str, str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--strategies", nargs="*", default=list(STRATEGIES))
    parser.add_argument("--instances", type=int)
    asked = parser.parse_args()
    done = {(line["kind"], line["strategy"], int(line["instance"])) for line in read_scores()}
    with toy_options():
        for kind in asked.kinds:
            for strategy in asked.strategies:
                full = INSTANCES.get(kind, OTHERWISE)
                count = asked.instances or min(full, FEWER.get(strategy, full))
                for number in range(FIRST, FIRST + count):
                    if (kind, strategy, number) not in done:
                        add_scores((kind, strategy, number))
                        print(kind, strategy, number, flush=True)
    write_table(read_scores())
    plot(read_scores())


def add_scores(key: Key) -> None:
    """Play one search and append its scores."""
    kind, strategy, number = key
    scores = play(Instance(number, KINDS[kind]), strategy, number, LOOKS)
    fresh = not SCORES.exists()
    with SCORES.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(FIELDS)
        for trials, score in scores.items():
            figures = (score.regret, score.hypervolume, score.lost, score.seconds)
            writer.writerow([*key, trials, *(f"{figure:.5f}" for figure in figures)])


def read_scores() -> list[dict[str, str]]:
    if not SCORES.exists():
        return []
    with SCORES.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary(lines: list[dict[str, str]]) -> dict[tuple[str, str, int], dict[str, float]]:
    """Return quartiles and means by kind, strategy and number of trials; regret and shares in percent."""
    groups = defaultdict(list)
    for line in [*lines, *({**line, "kind": POOLED} for line in lines if line["kind"] in BROKEN)]:
        groups[line["kind"], line["strategy"], int(line["trials"])].append(line)
    found = {}
    for key, group in groups.items():
        regret = 100 * np.array([float(line["regret"]) for line in group])
        found[key] = {
            "instances": len(group),
            "regret_median": float(np.median(regret)),
            "regret_p75": float(np.quantile(regret, 0.75)),
            "within_3": 100 * float((regret <= 3).mean()),
            "hypervolume_median": float(np.median([float(line["hypervolume"]) for line in group])),
            "lost": 100 * float(np.mean([float(line["lost"]) for line in group])),
        }
    return found


def ordered(lines: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Return pairs of kind and strategy in the order of the table."""
    present = {(line["kind"], line["strategy"]) for line in lines}
    present |= {(POOLED, strategy) for kind, strategy in present if kind == BROKEN[-1]}
    kinds = list(KINDS)
    kinds.insert(kinds.index(BROKEN[-1]) + 1, POOLED)
    return [(kind, strategy) for kind in kinds for strategy in STRATEGIES if (kind, strategy) in present]


def write_table(lines: list[dict[str, str]]) -> None:
    """Write table.csv and table.md."""
    found = summary(lines)
    with (HERE / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["kind", "strategy", "trials", *next(iter(found.values()))])
        for kind, strategy in ordered(lines):
            for trials in LOOKS:
                figures = found[kind, strategy, trials].values()
                writer.writerow([kind, strategy, trials, *(f"{figure:.3f}" for figure in figures)])
    text = [
        "Regret of the finally chosen config against the true optimum: median [upper quartile], percent.",
        "Front: median share of the true front's hypervolume. Lost: trials out of memory or failed by 30, percent.",
        "Within 3 %: share of the instances at 30 trials, percent.",
        "",
        "| instances | strategy | n | regret at 10 | at 20 | at 30 | front at 20 | at 30 | lost | within 3 % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, strategy in ordered(lines):
        at = {trials: found[kind, strategy, trials] for trials in LOOKS}
        regrets = [f"{at[trials]['regret_median']:.1f} [{at[trials]['regret_p75']:.1f}]" for trials in LOOKS]
        fronts = [f"{at[trials]['hypervolume_median']:.2f}" for trials in (20, 30)]
        last = [f"{at[30]['lost']:.0f}", f"{at[30]['within_3']:.0f}"]
        number = f"{at[30]['instances']:.0f}"
        text.append(f"| {' | '.join([kind, strategy, number, *regrets, *fronts, *last])} |")
    (HERE / "table.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def plot(lines: list[dict[str, str]]) -> None:
    """Draw the median regrets of the table, with bars to the upper quartile, one panel a kind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = summary(lines)
    colours = {strategy: f"C{index}" for index, strategy in enumerate(STRATEGIES)}
    kinds = [kind for kind in KINDS if any(line["kind"] == kind for line in lines)]
    rows = -(-len(kinds) // 4)
    figure, panels = pyplot.subplots(rows, 4, figsize=(15, 3.6 * rows), sharey=True, squeeze=False)
    for spare in panels.flat[len(kinds) :]:
        spare.set_axis_off()
    for panel, kind in zip(panels.flat, kinds, strict=False):
        for strategy in [strategy for own, strategy in ordered(lines) if own == kind]:
            medians = [max(found[kind, strategy, trials]["regret_median"], 0.1) for trials in LOOKS]
            upper = [max(found[kind, strategy, trials]["regret_p75"], 0.1) for trials in LOOKS]
            rise = [max(0.0, high - middle) for high, middle in zip(upper, medians, strict=True)]
            panel.errorbar(
                LOOKS,
                medians,
                yerr=[[0] * len(LOOKS), rise],
                marker="o",
                capsize=3,
                label=strategy,
                color=colours[strategy],
            )
        panel.set(title=kind, xlabel="trials", yscale="log", xticks=LOOKS)
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("regret of the chosen config, %")
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "table.png", dpi=110)


if __name__ == "__main__":
    main()
