"""`autotune search`, and the command that it prints to go on with it."""

from __future__ import annotations

import tomllib

from tests.cli.test_command import SOUND

SMALL = ("--trials", 2, "--trial-budget", 1, "--verify", "none", "--max-batch", 16, "--quick", "--no-lock")


def test_a_search_of_the_baseline_alone_goes_on_by_the_command_that_is_printed(run, write):
    write(SOUND)
    ended = run("search", "train.py", *SMALL)
    (line,) = [line for line in ended.out.splitlines() if line.startswith("go on ")]
    assert line.endswith("--trials 24 --resume")
    again = run(*line.replace("--trials 24", "--trials 3").split()[3:])
    assert again.status == 0, again.err
    assert "resumed with 2 trials measured before" in again.out
    assert "no other config was tried" not in again.out


def test_deterministic_algorithms_hold_in_every_run_and_in_the_config_that_is_handed_out(run, write, tmp_path):
    write(SOUND)
    ended = run("search", "train.py", "--deterministic", *SMALL)
    assert ended.status == 0, ended.err
    best = tmp_path / "results" / "train" / "best.toml"
    assert tomllib.loads(best.read_text())["options"]["deterministic"] is True


def test_an_operation_that_cannot_be_deterministic_is_the_scripts_own_error(run, write):
    write(
        "def put(output, target):\n"
        "    where = torch.zeros(3).put_(torch.tensor([0, 1]), torch.ones(2))\n"
        "    return nn.functional.cross_entropy(output * where, target)\n"
        + SOUND.replace("nn.CrossEntropyLoss()", "put")
    )
    assert run("search", "train.py", *SMALL).status == 0
    ended = run("search", "train.py", "--deterministic", "--force", *SMALL)
    ended.check_clear()
    assert ended.status == 1
    assert "put_ does not have a deterministic implementation" in ended.err
    assert "where = torch.zeros(3)" in ended.err
