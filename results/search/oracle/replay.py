"""Replays searches against the measured tables: how soon does each sampler find the best, and what does it lose?

    python results/search/oracle/replay.py                                   # 24 seeds; 25 minutes of one core a table
    python results/search/oracle/replay.py --examples digits_cnn --seeds 2 --samplers structured --out /tmp/replay

Works on tables that are not complete, and says how many configs they hold. The search is the tool's own loop; only
trials are answered from the table: by a run of that config, moved to the mean of its runs plus noise of the table's
own size. Every sampler is kept to the table: the structured one chooses among its configs, a proposal of the others
is moved to the nearest config that was not measured yet (so they never waste a trial on a duplicate). Writes, for each
example, EXAMPLE.md, EXAMPLE.png and EXAMPLE.regret.csv (every search). With --samplers structured the other samplers'
searches stay as that file has them, which spares most of the time where the tool's own sampler alone has changed.
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
import os
import statistics
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import numpy as np
import optuna
import torch
from play import Played, play
from plot import plot
from table import Table

from autotune.documents import from_plain
from autotune.facts import Facts
from autotune.machine import Machine

FOLDER = Path(__file__).resolve().parent
TRIALS = {"structured": 30, "gp": 30, "tpe": 90, "random": 90}
"""three times as many for those that are to be shown to need three times as many"""
LOOKS = (10, 15, 20, 30)
SEEDS = 24
NEAR = 0.02  # regret that counts as having found the best
PEAK_NEAR = 0.10  # error of a predicted peak that is good enough
FREE, LIMITED = "", "median peak"
"""the memory limits that a search is played under, as regret.csv names them"""
AFTER = 5  # trials from which on none may be over the memory limit

Searches = dict[str, list[Played]]


def at(played: Played, trials: int) -> float:
    """Return the regret after some trials; a search that stopped keeps its answer."""
    return played.regret[min(trials, len(played.regret)) - 1]


def trials_needed(played: Played, tolerance: float) -> float:
    """Return the trials after which the answer stays within the tolerance; inf where it does not."""
    away = [number for number, regret in enumerate(played.regret, 1) if regret > tolerance]
    last = max(away, default=0)
    return last + 1 if last < len(played.regret) else math.inf


def regret_row(name: str, searches: list[Played], tolerance: float) -> str:
    cells = []
    for look in LOOKS:
        found = [100 * at(played, look) for played in searches]
        cells.append(f"{np.median(found):.1f} [{np.quantile(found, 0.75):.1f}]")
    needed = [trials_needed(played, tolerance) for played in searches]
    middle, upper = (float(np.quantile(needed, share, method="higher")) for share in (0.5, 0.75))
    within = statistics.mean(at(played, 20) <= tolerance for played in searches)
    return f"| {name} | {' | '.join(cells)} | {_count(middle)} [{_count(upper)}] | {within:.0%} |"


def memory_row(name: str, searches: list[Played], unlimited: list[Played]) -> str:
    late = statistics.mean(any(number > AFTER for number in played.over) for played in searches)
    lost = statistics.mean(len(played.over) / len(played.regret) for played in searches)
    errors = np.array([error for played in [*searches, *unlimited] for error in played.peak_errors])
    if not len(errors):
        return f"| {name} | {late:.0%} | {lost:.1%} | - | - | - |"
    inside = np.mean(errors <= math.log1p(PEAK_NEAR))
    return (
        f"| {name} | {late:.0%} | {lost:.1%} | {inside:.0%} | {math.expm1(np.median(errors)):.1%} "
        f"| {math.expm1(np.quantile(errors, 0.95)):.1%} |"
    )


def page(table: Table, free: Searches, limited: Searches, limit_bytes: int) -> str:
    tolerance = table.tolerance(NEAR)
    chosen = table.chosen
    machine = from_plain(Machine, chosen.machine)
    cards = ", ".join(card.name for card in machine.gpus) or from_plain(Facts, chosen.facts).device_name
    best = min(table.time, key=lambda config: table.time[config])
    replicated = sum(len(runs) > 1 for runs in table.runs.values())
    rows = [regret_row(name, searches, tolerance) for name, searches in free.items()]
    memory = [memory_row(name, searches, free[name]) for name, searches in limited.items()]
    return f"""# Searches over the measured table of {chosen.example}

Made by `replay.py`, which says how; every search is in {chosen.example}.regret.csv.

{len(table.runs)} of {len(set(map(str, chosen.configs)))} configs measured, {replicated} of them more than once; \
{table.trials} trials, {table.seconds / 3600:.1f} h. Noise from run to run {table.noise:.1%}; \
"near" is a regret of at most {tolerance:.1%}. Baseline {1e6 * table.time.get(table.space.baseline, math.nan):.0f}, \
best {1e6 * table.time[best]:.0f} us a sample: `{dict(best)}`. {len(next(iter(free.values())))} seeds.

| sampler | {" | ".join(f"regret at {look}, %" for look in LOOKS)} | trials until near | near at 20 |
|---|{"---|" * (len(LOOKS) + 2)}
{chr(10).join(rows)}

Median, upper quartile in brackets. With a memory limit of {limit_bytes / 2**20:.0f} MiB, the median \
peak of the table or, where that is higher, the baseline's:

| sampler | searches with a trial over the limit after the {AFTER}th | trials over it | predicted peaks within \
{PEAK_NEAR:.0%} | median error | 95th percentile |
|---|---|---|---|---|---|
{chr(10).join(memory)}

![regret]({chosen.example}.png)

{machine.cpu}, {machine.usable_cores:g} usable cores, {cards}; Python {machine.python}, \
{", ".join(f"{name} {version}" for name, version in machine.versions.items())}.
"""


def searches_of(table: Table, names: list[str], seeds: int, limit_bytes: int | None, pool: Executor) -> Searches:
    # with a limit only its observance counts, and that shows in the first trials
    trials = {name: TRIALS[name] if limit_bytes is None else max(LOOKS) for name in names}
    under_way = {
        name: pool.map(
            functools.partial(
                play, table, name, trials=trials[name], limit_bytes=limit_bytes, peaks=name == "structured"
            ),
            range(seeds),
        )
        for name in names
    }
    return {name: list(_told(f"{table.chosen.example} {name}", plays)) for name, plays in under_way.items()}


def _told(what: str, plays: Iterator[Played]) -> list[Played]:
    found = list(plays)
    print(f"{what}: regret at 20 {np.median([at(played, 20) for played in found]):.1%}", flush=True)
    return found


def kept(path: Path, limit: str, others: list[str]) -> Searches:
    """Return the searches that a regret.csv has of some samplers; without predicted peaks, which it does not hold."""
    if not path.exists():
        return {}
    found: dict[str, dict[int, Played]] = {}
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            if line["limit"] == limit and line["sampler"] in others:
                nothing = Played(regret=[], seconds=[], over=[], peak_errors=[])
                played = found.setdefault(line["sampler"], {}).setdefault(int(line["seed"]), nothing)
                played.regret.append(float(line["regret"]))
                played.seconds.append(float(line["seconds"]))
                if line["over"] == "1":
                    played.over.append(int(line["trial"]))
    return {name: [found[name][seed] for seed in sorted(found[name])] for name in others if name in found}


def memory_limit(table: Table) -> int:
    """Return the median peak of the table, bytes, yet enough for the baseline: what people run today fits."""
    median = statistics.median(table.peak(config) for config in table.time)
    return max(int(median), table.peak(table.space.baseline))


def lines_of(limit: str, searches: Searches) -> list[dict[str, object]]:
    return [
        {"limit": limit, "sampler": name, "seed": seed, "trial": number}
        | {"seconds": f"{seconds:.1f}", "regret": f"{regret:.5f}", "over": int(number in played.over)}
        for name, plays in searches.items()
        for seed, played in enumerate(plays)
        for number, (seconds, regret) in enumerate(zip(played.seconds, played.regret, strict=True), 1)
    ]


def _count(trials: float) -> str:
    return "not found" if math.isinf(trials) else f"{trials:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, default=FOLDER, help="folder of the tables")
    parser.add_argument("--examples", nargs="+", help="all that have a table")
    parser.add_argument("--samplers", nargs="+", choices=list(TRIALS), default=list(TRIALS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="searches at a time")
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(args.jobs, initializer=_alone) as pool:
        for example in args.examples or sorted(path.stem for path in args.tables.glob("*.jsonl")):
            table = Table(args.tables, example)
            limit = memory_limit(table)
            searches = args.out / f"{example}.regret.csv"
            others = [name for name in TRIALS if name not in args.samplers]
            free = searches_of(table, args.samplers, args.seeds, None, pool) | kept(searches, FREE, others)
            limited = searches_of(table, args.samplers, args.seeds, limit, pool) | kept(searches, LIMITED, others)
            lines = lines_of(FREE, free) + lines_of(LIMITED, limited)
            with searches.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(lines[0]))
                writer.writeheader()
                writer.writerows(lines)
            plot(example, free, args.out / f"{example}.png")
            (args.out / f"{example}.md").write_text(page(table, free, limited, limit))


def _alone() -> None:
    """Prepare a process that plays beside others: its share of the cores is one."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    torch.set_num_threads(1)


if __name__ == "__main__":
    main()
