"""`autotune memory` and `autotune profile` as people meet them."""

from __future__ import annotations

import gzip
import json
from contextlib import nullcontext

import pytest

from autotune.doctor.memory.account import MemoryReport
from tests.report.test_memory_and_profile import account

SCRIPT = """
    workload = autotune.Workload(
        model=lambda: nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3)),
        dataset=lambda: data(64),
        loss=nn.CrossEntropyLoss(),
        baseline={"batch_size": 16},
    )
"""


def test_memory_is_accounted_for_by_kind_and_module(write, run):
    ended = run("memory", write(SCRIPT), "--memory-limit", "100GiB")
    assert ended.status == 0, ended.err
    for word in ("activations", "optimizer state", "One step", "1 (train.py:", "the process holds at most"):
        assert word in ended.out
    assert "Batch size 64 fits into 100 GiB: it was run" in ended.out
    assert "the dataset has no more samples" in ended.out


def test_memory_as_json(write, run):
    ended = run("memory", write(SCRIPT), "--json", "--baseline", "batch_size=8")
    assert ended.status == 0, ended.err
    account = json.loads(ended.out)["account"]
    assert account["batch_size"] == 8
    assert account["peak"]["parts"]["parameters"] == 4 * (4 * 64 + 64 + 64 * 3 + 3)
    assert account["needed"] > sum(account["peak"]["parts"].values())
    assert {moment["phase"] for moment in account["timeline"]} == {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("layout", [(), ("--json",)], ids=["table", "json"])
@pytest.mark.parametrize("place", ["no/such/x.pickle", "."])
def test_an_account_outlives_a_snapshot_that_cannot_be_written(place, layout, run, tmp_path, monkeypatch):
    made = tmp_path / "made.pickle"
    made.write_text("")
    found = MemoryReport(account=account(accelerator=True, snapshot=str(made)))
    monkeypatch.setattr("autotune.cli.memory.looking", lambda *_, **__: nullcontext())
    monkeypatch.setattr("autotune.doctor.memory.run.account_for", lambda *_, **__: found)
    ended = run("memory", "train.py", "--snapshot", place, *layout)
    ended.check_clear()
    assert ended.status == 2
    assert ended.message.startswith(f"cannot write {place}: ")
    assert "activations" in ended.out
    assert "made.pickle" not in ended.out  # which goes with the folder of the look
    ended = run("memory", "train.py", "--snapshot", "kept.pickle", *layout)
    assert ended.status == 0, ended.err
    assert "kept.pickle" in ended.out
    assert (tmp_path / "kept.pickle").exists()


def test_no_snapshot_replaces_a_file_unasked(run, tmp_path, monkeypatch):
    made = tmp_path / "made.pickle"
    made.write_text("new")
    found = MemoryReport(account=account(accelerator=True, snapshot=str(made)))
    monkeypatch.setattr("autotune.cli.memory.looking", lambda *_, **__: nullcontext())
    monkeypatch.setattr("autotune.doctor.memory.run.account_for", lambda *_, **__: found)
    mine = tmp_path / "mine.pickle"
    mine.write_text("old")
    ended = run("memory", "train.py", "--snapshot", "mine.pickle")
    ended.check_clear()
    assert (ended.status, ended.message.split("\n")[0]) == (2, "mine.pickle exists")
    assert mine.read_text() == "old"
    assert run("memory", "train.py", "--snapshot", "mine.pickle", "--force").status == 0
    assert mine.read_text() == "new"
    (tmp_path / "memory-snapshot.pickle").write_text("old")
    for name in ("memory-snapshot-2.pickle", "memory-snapshot-3.pickle"):
        ended = run("memory", "train.py")
        assert ended.status == 0, ended.err
        assert name in ended.out
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "memory-snapshot.pickle").read_text() == "old"


def test_a_limit_that_nothing_fits(write, run):
    ended = run("memory", write(SCRIPT), "--memory-limit", "1MiB")
    assert ended.status == 1
    ended.check_clear()
    assert "nothing fits into" in ended.message


def test_a_profile_before_and_after_with_traces_that_perfetto_opens(write, run):
    script = write(SCRIPT)
    config = script.with_name("best.toml")
    config.write_text("[options]\nbatch_size = 32\n")
    ended = run("profile", script, "--config", config)
    assert ended.status == 0, ended.err
    assert "share before" in ended.out
    assert "a sample before" in ended.out
    assert "addmm" in ended.out
    for name in ("baseline", "config"):
        with gzip.open(script.parent / "profile-train" / f"{name}.trace.json.gz") as file:
            events = json.load(file)["traceEvents"]
        assert sum(event.get("name") == "autotune: step" for event in events) == 4
        assert any(event.get("name") == "aten::addmm" for event in events)


def test_a_profile_of_today_alone_as_json(write, run, tmp_path):
    ended = run("profile", write(SCRIPT), "--json", "--out", tmp_path / "traces")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    assert found["after"] is None
    assert sum(one["share"] for one in found["before"]["operations"]) == pytest.approx(1.0)
    assert (tmp_path / "traces" / "baseline.trace.json.gz").exists()


@pytest.mark.parametrize("command", ["memory", "profile"])
def test_what_is_wrong_is_one_clear_message(write, run, command):
    ended = run(command, write("build_model = lambda: 1 / 0\nbuild_dataset = data\n"), "--baseline", "batch_size=8")
    assert ended.status == 1
    ended.check_clear()
    assert "ZeroDivisionError" in ended.traceback
    ended = run(command, write("print(torch.ones(2))\n"))
    assert ended.status == 1
    ended.check_clear()
    assert "has no workload" in ended.message
    script = write("build_model = lambda: nn.Linear(4, 3)\nbuild_dataset = data\n")
    assert run(command, "nothing.py").status == 2
    assert run(command, script, "--config", "missing.toml").status == 2
    ended = run(command, script)
    assert ended.status == 2
    assert "no batch size" in ended.message


def test_a_memory_limit_that_is_no_size(write, run):
    ended = run("memory", write(SCRIPT), "--memory-limit", "much")
    assert ended.status == 2
    assert "--memory-limit much: not a size" in ended.message


@pytest.mark.parametrize("command", [pytest.param("doctor", marks=pytest.mark.slow), "memory", "profile"])
def test_no_file_of_the_users_is_changed(write, process, command):
    script = write("""
        def dataset():
            with open("notes.txt", "w") as file:
                file.write("overwritten")
            return data(64)

        workload = autotune.Workload(
            model=lambda: nn.Linear(4, 3), dataset=dataset, loss=nn.CrossEntropyLoss(), baseline={"batch_size": 16}
        )
    """)
    notes = script.with_name("notes.txt")
    notes.write_text("mine")
    ended = process(command, script)
    assert ended.status == 0, ended.err
    assert notes.read_text() == "mine"
