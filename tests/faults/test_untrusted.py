"""Files are data: a hostile run folder executes nothing, hangs nothing, and ends in one message."""

from __future__ import annotations

import json
import os
import pickle
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


# a config of another machine is read with a warning, and Python warns of what optuna leaves open after an error
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.mark.usefixtures("alarm")
def test_mutated_files_end_in_a_message_or_are_read(sound, tmp_path, capfd):
    fuzz(sound, tmp_path, 120, seed=0, capfd=capfd)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_mutated_files(sound, tmp_path, capfd, part):
    fuzz(sound, tmp_path, 1000, seed=100 + part, capfd=capfd)


# ---- hostile on purpose ----


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_no_pickle_in_a_run_folder_is_ever_loaded(sound, folder, tmp_path, capfd):
    mark = tmp_path / "exploded"
    bomb = pickle.dumps(Bomb(mark))
    pickle.loads(bomb)
    assert mark.exists()  # it would work
    mark.unlink()
    (folder / "workload.pickle").write_bytes(bomb)
    info = json.loads((folder / "run.json").read_text())
    info["source"]["pickle"] = str(folder / "workload.pickle")
    (folder / "run.json").write_text(json.dumps(info))
    for name in ("run.json", "trials/0003.json"):
        for read in readers(folder, sound, name):
            read()
        # and in the place of the document itself
        (folder / name).write_bytes(bomb)
        for read in readers(folder, sound, name):
            read()
    capfd.readouterr()
    assert not mark.exists()


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_folder(path: Path) -> None:
    path.mkdir()


def put_giant(path: Path) -> None:
    path.touch()
    os.truncate(path, 8 << 30)  # holes only: takes no space


def put_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("put", [put_pipe, put_folder, put_giant, put_zeros])
@pytest.mark.parametrize("name", ["run.json", "trials/0003.json", "verification.json", "best.toml"])
def test_what_is_no_file_is_one_message(sound, folder, capfd, name, put):
    (folder / name).unlink()
    put(folder / name)
    before = psutil.Process().memory_info().rss
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    statuses = [read() for read in readers(folder, sound, name)]
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert "Traceback" not in capfd.readouterr().err
    assert set(statuses) <= {1, 2}
    assert psutil.Process().memory_info().rss - before < GROWTH_BYTES


def test_markup_and_escapes_of_others_are_printed_as_text(folder, capfd):
    evil = "[bold red]big[/bold red] \x1b[2J\x1b]0;owned\x07 [link=file:///etc]x[/link]"
    path = folder / "trials/0003.json"
    record = json.loads(path.read_text())
    record |= {"outcome": "error", "measurement": None}
    record["failure"] = {"reason": evil, "message": evil, "traceback": evil, "phase": evil}
    path.write_text(json.dumps(record))
    info = json.loads((folder / "run.json").read_text())
    info["facts"]["device_name"] = info["facts"]["model"] = evil
    info["reasons"]["compile"] = evil
    (folder / "run.json").write_text(json.dumps(info))
    for arguments in (("results", folder, "--all"), ("show", folder, 3), ("explain", folder), ("show", folder, evil)):
        command(*arguments)
        out, err = capfd.readouterr()
        assert "\x1b" not in out + err
        assert "\x07" not in out + err
        if arguments[0] == "show" and arguments[2] == 3:
            assert "[bold red]big[/bold red]" in out
    (folder / "run.json").write_text(json.dumps(info | {evil: 1}))
    command("results", folder)
    err = capfd.readouterr().err
    assert "\x1b" not in err
    assert "[bold red]big[/bold red]" in err
