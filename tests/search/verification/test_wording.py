"""The one line that may be printed."""

from __future__ import annotations

import dataclasses

import pytest

from autotune.config import Config
from autotune.search.verification import Verdict, attribute, sentence, verify
from autotune.search.verification.claim import Claim
from autotune.search.verification.statistics import Comparison
from autotune.search.verification.wording import contribution
from tests.search.verification.synthetic_machine import SyntheticMachine, white


def make_claim(verdict: Verdict, speedup=1.0, lower=0.9, upper=1.1, pairs=9, reason="", alpha=0.05, needed=0):
    look = Comparison(
        pairs=pairs,
        alpha=0.0221,
        speedup=speedup,
        lower=lower,
        upper=upper,
        spread=0.05,
        noise_floor=0.03,
        median_speedup=speedup,
        verdict=verdict,
        rounds_needed=needed,
    )
    return Claim(baseline={}, candidate={}, alpha=alpha, seed=0, looks=(look,), verdict=verdict, reason=reason)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (
            make_claim(Verdict.FASTER, 1.2288, 1.17, 1.29),
            "1.23x faster per sample than your baseline (95 % CI 1.17-1.29, 9 interleaved A/B rounds, fresh processes)",
        ),
        (
            make_claim(Verdict.FASTER, 1.5, 1.1, 2.0, pairs=6, alpha=0.025),
            "1.5x faster per sample than your baseline "
            "(97.5 % CI 1.10-2.00, 6 interleaved A/B rounds, fresh processes)",
        ),
        (
            make_claim(Verdict.FASTER, 1.2345, 1.2301, 1.2389),
            "1.234x faster per sample than your baseline "
            "(95 % CI 1.230-1.239, 9 interleaved A/B rounds, fresh processes)",
        ),
        (
            make_claim(Verdict.FASTER, 1.05, 1.0049, 1.0951),
            "1.05x faster per sample than your baseline (95 % CI 1.00-1.10, 9 interleaved A/B rounds, fresh processes)",
        ),
        (
            make_claim(Verdict.SLOWER, 0.8, 0.75, 0.85),
            "1.25x slower per sample than your baseline (95 % CI 1.17-1.34, 9 interleaved A/B rounds, fresh processes)",
        ),
        (make_claim(Verdict.SAME, 1.0, 0.981, 1.019), "no measurable difference (CI 0.98-1.02)"),
        (
            make_claim(Verdict.INCONCLUSIVE, 1.04, 0.955, 1.133, reason="noise", needed=40),
            "inconclusive: noise +-9 %; about 40 rounds would be needed",
        ),
        (
            make_claim(Verdict.INCONCLUSIVE, reason="environment: 5 of 12 windows disturbed (gpu_shared)"),
            "inconclusive: environment: 5 of 12 windows disturbed (gpu_shared); about 6 undisturbed rounds would be "
            "needed (--wait-idle waits for a quiet machine)",
        ),
    ],
)
def test_sentence(claim, expected):
    assert sentence(claim) == expected


def test_without_a_look_only_the_reason_is_said():
    claim = dataclasses.replace(make_claim(Verdict.INCONCLUSIVE, reason="no time for two rounds"), looks=())
    assert sentence(claim) == "inconclusive: no time for two rounds"


def test_the_smaller_config_speaks_from_its_own_rounds():
    baseline, winner = Config(batch_size=32), Config(batch_size=32, precision="bf16", channels_last=True)
    found = SyntheticMachine(lambda config: 0.5 if config.value("precision") == "bf16" else 1.0, white(0, 0.01))
    why = attribute(found.measure, baseline, winner, clock=found.clock)
    assert sentence(why.confirmation).startswith("2.0")
    assert "6 interleaved A/B rounds" in sentence(why.confirmation)
    assert contribution(why.contributions[0]) == "precision = bf16: 1.99x (95 % CI 1.96-2.02)"
    assert contribution(why.contributions[1]).startswith("channels_last = True: no gain seen (95 % CI 0.9")


def test_equal_configs_are_never_called_faster_by_the_sentence():
    found = SyntheticMachine(noise=white(1, 0.004))
    result = verify(found.measure, Config(batch_size=32), [Config(batch_size=64)], clock=found.clock)
    assert sentence(result.best).startswith("no measurable difference (CI 0.9")
