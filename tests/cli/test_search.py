"""`autotune search`, and the command that it prints to go on with it."""

from __future__ import annotations

from tests.cli.test_command import SOUND


def test_a_search_of_the_baseline_alone_goes_on_by_the_command_that_is_printed(run, write):
    write(SOUND)
    ended = run(
        "search", "train.py", "--trials", 2, "--trial-budget", 1, "--verify", "none", "--max-batch", 16, "--quick"
    )
    (line,) = [line for line in ended.out.splitlines() if line.startswith("go on ")]
    assert line.endswith("--trials 24 --resume")
    again = run(*line.replace("--trials 24", "--trials 3").split()[3:])
    assert again.status == 0, again.err
    assert "resumed with 2 trials measured before" in again.out
    assert "no other config was tried" not in again.out
