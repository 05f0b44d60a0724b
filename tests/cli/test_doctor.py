"""`autotune doctor` as people meet it.

Nothing here rests on a fix that the doctor tries out: what that saves is noise on a busy machine, and may say anything.
"""

from __future__ import annotations

import json

import pytest

FAULTY = """
    from torch.nn.functional import cross_entropy
    kept = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
            self.spare = nn.Linear(8, 8)  # spare

        def forward(self, x):
            rows = []
            for row in x:
                rows.append(row.exp().log().sin().cos().tanh().abs().neg().exp().log().sin().cos().tanh())  # loop
            return self.layers(torch.stack(rows))

    def training_step(model, batch):
        loss = cross_entropy(model(batch[0]), batch[1])
        kept.append(loss)  # kept
        if loss.item() != loss.item():  # read
            raise ValueError
        return loss

    workload = autotune.Workload(
        model=Net, dataset=lambda: data(512), training_step=training_step, baseline={"batch_size": 64}
    )
"""


def test_planted_faults_are_named_with_their_lines(write, run):
    script = write(FAULTY)
    lines = {text.rpartition("# ")[2]: number for number, text in enumerate(script.read_text().splitlines(), 1)}
    ended = run("doctor", script, "--json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    places = {item["check"]: item["where"] for item in found["findings"]}
    assert places["small_operations"][0] == f"train.py:{lines['loop']}"
    assert places["unused_parameters"] == [f"spare (train.py:{lines['spare']})"]
    assert places["memory_growth"] == [f"train.py:{lines['kept']}"]
    assert places["synchronisations"] == [f"train.py:{lines['read']}"]
    assert set(places) == {"small_operations", "unused_parameters", "memory_growth", "synchronisations"}
    assert found["findings"][0]["check"] == "small_operations"
    shares = [item["gain"]["share"] for item in found["findings"] if item["gives"] == "speed"]
    assert shares == sorted(shares, reverse=True)
    assert found["ceilings"]["step_s"] >= found["ceilings"]["compute_s"] > 0


@pytest.mark.slow  # the contract of the checks has clean workloads, too
def test_a_clean_script_under_a_config_has_no_finding(write, run):
    script = write("build_model = lambda: nn.Linear(4, 3)\nbuild_dataset = data\nloss = nn.CrossEntropyLoss()\n")
    config = script.with_name("best.toml")
    config.write_text("[options]\nbatch_size = 16\n")
    ended = run("doctor", script, "--config", config)
    assert ended.status == 0, ended.err
    assert "batch_size=16" in ended.out
    assert "A step takes" in ended.out
    assert "Nothing found" in ended.out
    assert "Traceback" not in ended.err


def test_a_script_that_cannot_run_is_one_clear_message(write, run):
    script = write("build_model = lambda: 1 / 0\nbuild_dataset = data\n")
    ended = run("doctor", script, "--baseline", "batch_size=8")
    assert ended.status == 1
    ended.check_clear()
    assert "ZeroDivisionError" in ended.traceback


def test_a_script_without_a_workload_is_told_what_it_needs(write, run):
    ended = run("doctor", write("print(torch.ones(2))\n"))
    assert ended.status == 1
    ended.check_clear()
    assert "has no workload" in ended.message
    assert "--model make_net" in ended.message


def test_wrong_usage(write, run):
    assert run("doctor", "nothing.py").status == 2
    script = write("build_model = lambda: nn.Linear(4, 3)\nbuild_dataset = data\n")
    assert run("doctor", script, "--config", "missing.toml").status == 2
    ended = run("doctor", script)
    assert ended.status == 2
    assert ended.message.startswith("no batch size")
    assert run("doctor", script, "--baseline", "batch_size=0").status == 2
