"""What each option gives, and the smaller config, on a machine whose options multiply."""

from __future__ import annotations

import math

import pytest

from autotune.config import Config
from autotune.search.verification import QUICK, Verdict, attribute
from autotune.search.verification.wording import contribution
from tests.search.verification.synthetic_machine import WINDOW_S, SyntheticMachine, white

BASELINE = Config(batch_size=32, num_workers=2)
WINNER = Config(batch_size=32, num_workers=4, precision="bf16", channels_last=True)
GAINS = {("precision", "bf16"): 1.3, ("num_workers", 4): 1.1}  # channels_last gives nothing


def true_s(config: Config) -> float:
    return 1 / math.prod(gain for (name, value), gain in GAINS.items() if config.value(name) == value)


def machine(sd: float = 0.01, seed: int = 0, time_s=true_s, **others) -> SyntheticMachine:
    return SyntheticMachine(time_s, white(seed, sd), **others)


def run(found: SyntheticMachine, winner: Config = WINNER, **others):
    return attribute(found.measure, BASELINE, winner, clock=found.clock, **others)


def by_option(result):
    return {item.option: item for item in result.contributions}


def test_each_option_gets_its_gain_with_an_interval():
    found = by_option(run(machine()))
    assert set(found) == {"precision", "num_workers", "channels_last"}
    for option, gain in (("precision", 1.3), ("num_workers", 1.1), ("channels_last", 1.0)):
        assert found[option].comparison.lower < gain < found[option].comparison.upper
    assert found["num_workers"].without == dict(WINNER.replace(num_workers=2))
    assert found["channels_last"].gives_nothing
    assert not found["precision"].gives_nothing


def test_an_option_without_gain_leaves_the_config_and_the_rest_is_measured_again():
    result = run(machine())
    assert result.confirmation is not None
    assert result.confirmation.accepted
    assert result.config == dict(WINNER.replace(channels_last=False))
    assert result.confirmation.to_baseline.verdict is Verdict.FASTER
    assert {window.arm for window in result.confirmation.windows} == {"baseline", "winner", "minimal"}


def test_two_options_that_stand_in_for_each_other_stay():
    """Either alone does; each seems to give nothing; without both the gain is gone: the re-measurement sees it."""

    def either(config: Config) -> float:
        helped = config.value("channels_last") or config.value("num_workers") == 4
        return (0.8 if helped else 1.0) * (0.7 if config.value("precision") == "bf16" else 1.0)

    result = run(machine(time_s=either))
    assert [item.option for item in result.contributions if item.gives_nothing] == [
        "num_workers",
        "channels_last",
    ]
    assert not result.confirmation.accepted
    assert result.confirmation.reason == "not shown to be as fast as the winner"
    assert result.config == dict(WINNER)


def test_what_the_user_asked_for_is_not_put_back():
    found = machine()
    result = run(found, kept=["channels_last"])
    assert set(by_option(result)) == {"precision", "num_workers"}
    assert result.confirmation is None
    assert all(config.value("channels_last") for config in found.configs)


def test_without_idle_options_nothing_is_confirmed():
    result = run(machine(), WINNER.replace(channels_last=False))
    assert result.confirmation is None
    assert result.config == dict(WINNER.replace(channels_last=False))


def test_noise_alone_takes_no_option_away():
    """A wide interval around a fair gain holds 1, yet the option may well matter."""
    result = run(machine(sd=0.10, seed=3))
    assert "precision" not in {item.option for item in result.contributions if item.gives_nothing}


def test_an_option_that_the_winner_cannot_do_without_is_needed():
    without = WINNER.replace(precision="fp32")
    found = by_option(run(machine(failures={without: "cuda out of memory"})))
    assert found["precision"].needed
    assert contribution(found["precision"]).endswith("does not run without it: cuda out of memory")
    assert found["num_workers"].comparison is not None


def test_an_illegal_combination_is_not_measured():
    refused = WINNER.replace(num_workers=2)
    result = run(machine(), legal=lambda config: "no" if config == refused else None)
    assert by_option(result)["num_workers"].needed
    assert "num_workers" not in {window.arm for window in result.windows}


def test_inert_values_go_with_the_option_that_they_need():
    baseline = Config(batch_size=32)
    winner = Config(batch_size=32, num_workers=4, prefetch_factor=4)

    def canonical(config: Config) -> Config:
        if config.value("num_workers") == 0:
            return Config(**{name: value for name, value in config.items() if name != "prefetch_factor"})
        return config

    found = machine()
    result = attribute(found.measure, baseline, winner, clock=found.clock, canonical=canonical)
    assert by_option(result)["num_workers"].without == {"batch_size": 32, "num_workers": 0}
    assert result.confirmation.config == {"batch_size": 32, "num_workers": 4, "prefetch_factor": 2}


def test_few_options_are_measured_well_when_time_is_short():
    found = machine()
    # 60 % of 21 windows: 4 rounds of three arms
    result = run(found, deadline_s=21 * WINDOW_S, window_s=WINDOW_S)
    reasons = {item.option: item.reason for item in result.contributions}
    assert list(reasons.values()).count("no time") == 1
    assert found.now_s <= 21 * WINDOW_S
    assert all(item.comparison.pairs == 4 for item in result.contributions if not item.reason)


@pytest.mark.parametrize("deadline_s", [0.0, WINDOW_S])
def test_no_time_at_all_leaves_the_winner(deadline_s):
    result = run(machine(), deadline_s=deadline_s, window_s=WINDOW_S)
    assert {item.reason for item in result.contributions} == {"no time"}
    assert result.config == dict(WINNER)


def test_a_winner_that_fails_is_said():
    result = run(machine(failures={WINNER: "killed by signal 9"}))
    assert {item.reason for item in result.contributions} <= {
        "the winner failed: killed by signal 9",
    }


def test_disturbed_windows_give_no_figure_and_accept_nothing():
    result = run(machine(flags=lambda index: ("no_steady_state",)), design=QUICK)
    assert all(item.reason.startswith("environment") for item in result.contributions)
    assert result.confirmation is None
    assert result.config == dict(WINNER)
