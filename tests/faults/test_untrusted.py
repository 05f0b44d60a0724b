"""Files are data: a hostile run folder executes nothing, hangs nothing, and ends in one message."""

from __future__ import annotations

import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from autotune import cli
from autotune.config import Config
from autotune.errors import AutotuneError
from autotune.records import Source
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.search.verification.result import Verification
from autotune.trials.folder import RunFolder
from tests.faults.hostile import mutate
from tests.search.simulated import Listener, SimulatedRunner

HANG_S = 60  # far beyond what reading any of these files takes
GROWTH_BYTES = 600 << 20
TRIALS = 6


def search(folder: Path, script: Path, **flow: Any) -> None:
    wishes = Wishes(trials=TRIALS, host_memory_limit_bytes=1 << 30, headroom=0.0)
    source = Source(script=str(script))
    search_workload(source, RunFolder(folder), wishes, Listener(), runner=SimulatedRunner(), **flow)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script and a finished, verified search of it."""
    home = tmp_path_factory.mktemp("sound")
    (home / "train.py").write_text("x = 1\n")
    search(home / "run", home / "train.py", verify="quick")
    return home


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def alarm() -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def command(*arguments: object) -> int:
    """Run a command in this process; anything but an exit is a traceback that users would see."""
    before = sys.argv
    sys.argv = ["autotune", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.argv = before
    return 0


def loads(load: Callable[[], object], *refusals: type[Exception]) -> int:
    try:
        load()
    except (AutotuneError, *refusals):
        return 1
    return 0


def readers(run: Path, sound: Path, name: str) -> list[Callable[[], int]]:
    """Return what reads the file `name` of a run folder."""
    if name == "best.toml":
        return [lambda: loads(lambda: Config.load(run / name)), lambda: command("report", run)]
    if name == "verification.json":
        return [lambda: loads(lambda: Verification.load(run / name), ValueError), lambda: command("report", run)]
    if name == "study.db":
        return [lambda: loads(lambda: search(run, sound / "train.py", verify="none", resume=True))]
    return [
        lambda: command("results", run),
        lambda: command("results", run, "--all", "--json"),
        lambda: command("results", run, "--csv"),
        lambda: command("show", run, 3),
        lambda: command("explain", run),
        lambda: command("report", run),
        lambda: loads(lambda: search(run, sound / "train.py", verify="none", resume=True)),
    ]


def fuzz(sound: Path, home: Path, cases: int, seed: int, capfd: Any) -> None:
    """Mutate one file of a run folder and read it, `cases` times."""
    rng = random.Random(seed)
    process = psutil.Process()
    run = home / "fuzzed"
    names = ["run.json", "trials/0003.json", "trials/0001.json", "verification.json", "best.toml", "study.db"]
    at_start = process.memory_info().rss
    for case in range(cases):
        name = rng.choice(names)
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(sound / "run", run)
        mutated = mutate((run / name).read_bytes(), rng)
        (run / name).write_bytes(mutated)
        read = rng.choice(readers(run, sound, name))
        signal.setitimer(signal.ITIMER_REAL, HANG_S)
        try:
            status = read()
        except BaseException as error:
            (home / "culprit").write_bytes(mutated)
            raise AssertionError(f"case {case} of seed {seed}: {name} in {home / 'culprit'}: {error!r}") from error
        signal.setitimer(signal.ITIMER_REAL, 0)
        out, err = capfd.readouterr()
        assert "Traceback" not in err, (case, name, err)
        assert err.count("error: ") <= 1, (case, name, err)
        assert status in (0, 1, 2)
        assert "\x1b" not in out + err, (case, name)
    assert process.memory_info().rss - at_start < GROWTH_BYTES


@pytest.mark.usefixtures("alarm")
def test_mutated_files_end_in_a_message_or_are_read(sound, tmp_path, capfd):
    fuzz(sound, tmp_path, 300, seed=0, capfd=capfd)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_mutated_files(sound, tmp_path, capfd, part):
    fuzz(sound, tmp_path, 1000, seed=100 + part, capfd=capfd)
