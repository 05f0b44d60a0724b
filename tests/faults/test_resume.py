"""Resuming refuses what is another search, names what differs, and loses nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

SCRIPT = """
import sys
LENGTH = 640

class Net(nn.Linear):
    pass

class Other(nn.Linear):
    pass

build = lambda: Net(4, 3)
build_other = lambda: Other(4, 3)
workload = autotune.Workload(
    model=build, dataset=lambda: data(LENGTH), loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
)
same = autotune.Workload(
    model=build, dataset=lambda: data(LENGTH), loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
)
"""
COMMON = ("--trials", "2", "--trial-budget", "1", "--quick", "--verify", "none", "--max-batch", "64")
NAMED = ("--workload", "workload")
SEARCHED: dict[str, Path] = {}


@pytest.fixture
def resume(run, write, tmp_path, tmp_path_factory):
    """Resume a finished search of two trials, made once, after `change` was done to its folder."""
    if not SEARCHED:
        write(SCRIPT)
        ended = run("search", "train.py", *COMMON, *NAMED)
        assert ended.status == 0, ended.err
        SEARCHED["run"] = tmp_path_factory.mktemp("searched") / "train"
        shutil.copytree(tmp_path / "results" / "train", SEARCHED["run"])
    folder = tmp_path / "results" / "train"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SEARCHED["run"], folder)

    def command(*more, script=SCRIPT, change=None, common=COMMON, named=NAMED):
        write(script)
        if change is not None:
            info = json.loads((folder / "run.json").read_text())
            change(info)
            (folder / "run.json").write_text(json.dumps(info))
        before = {path.name: path.read_bytes() for path in (folder / "trials").glob("0*.json")}
        ended = run("search", "train.py", *common, *named, "--resume", *more)
        after = {path.name: path.read_bytes() for path in (folder / "trials").glob("0*.json")}
        assert {name: after.get(name) for name in before} == before
        return ended

    return command


def test_the_same_search_goes_on(resume):
    ended = resume("--trials", "3")
    assert ended.status == 0, ended.err
    assert "resumed with 2 trials" in ended.out


def set_versions(info):
    info["machine"]["versions"]["torch"] = "1.13.0"


@pytest.mark.parametrize(
    ("differs", "how"),
    [
        ("script: ", {"script": SCRIPT + "\n# changed\n"}),
        ("dataset length: 640 then, 320 now", {"script": SCRIPT.replace("640", "320")}),
        ("model: Net then, Other now", {"script": SCRIPT.replace("model=build,", "model=build_other,")}),
        ("script arguments: none then, --fast now", {"more": ("--", "--fast")}),
        ("workload: workload then, same now", {"named": ("--workload", "same")}),
        ("baseline: ", {"more": ("--baseline", "batch_size=16")}),
        ("choices of batch_size: ", {"more": ("--choices", "batch_size=8,16")}),
        ("choices of precision: ", {"more": ("--exclude", "precision")}),
        ("objective: throughput then, latency now", {"more": ("--objective", "latency")}),
        ("memory limit: none then, ", {"more": ("--memory-limit", "3GiB")}),
        ("headroom: 0.05 then, 0.2 now", {"more": ("--headroom", "20%")}),
        ("torch: 1.13.0 then, ", {"change": set_versions}),
        ("device: A100 then, ", {"change": lambda info: info["facts"].update(device_name="A100")}),
        ("cores: 640.0 then, ", {"change": lambda info: info["machine"].update(usable_cores=640.0)}),
    ],
)
def test_another_search_is_refused_and_what_differs_is_named(resume, differs, how):
    ended = resume(*how.get("more", ()), **{key: value for key, value in how.items() if key != "more"})
    ended.check_clear()
    assert ended.status == 2
    assert differs in ended.message
    assert "--force" in ended.message
    assert "--out" in ended.message


def test_what_may_change_is_not_refused(resume):
    ended = resume("--seed", "7", "--trial-timeout", "90", "--sampler", "random", "--trials", "2")
    assert ended.status == 0, ended.err
