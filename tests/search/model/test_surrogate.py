"""The Gaussian process: prior, learning, scales."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.model import candidates as pool
from autotune.search.model.encoding import Encoding, Rows
from autotune.search.model.surrogate import Surrogate, option_terms


@pytest.fixture
def encoding(space: Space) -> Encoding:
    return Encoding(space)


@pytest.fixture
def some(encoding: Encoding) -> Rows:
    return pool.drawn(encoding, 40, np.random.default_rng(1))


def surrogate(encoding: Encoding, rows: Rows, targets: np.ndarray) -> Surrogate:
    return Surrogate(option_terms(encoding, ("compute",)), rows, targets)


def test_one_observation_and_the_priors_predict_the_rest(space: Space, encoding: Encoding) -> None:
    base = encoding.rows([space.baseline])
    half = encoding.rows([space.baseline.replace(precision="bf16")])
    mean, sd = surrogate(encoding, base, np.array([-3.0])).predict(half)
    assert mean[0] == pytest.approx(-3.35, abs=0.03)
    assert 0.2 < sd[0] < 0.4


def test_what_was_seen_is_known_better_than_what_was_not(encoding: Encoding, some: Rows) -> None:
    model = surrogate(encoding, some[:20], np.linspace(0, 1, 20))
    assert model.predict(some[:20])[1].mean() < 0.7 * model.predict(some[20:])[1].mean()


def test_additive_effects_are_learned(encoding: Encoding, some: Rows) -> None:
    half = encoding.rows([Config(precision="bf16")])[0][encoding.column["precision"]]
    effect = np.where(some[:, encoding.column["precision"]] == half, 0.5, 0.0)
    model = surrogate(encoding, some[:30], effect[:30])
    mean, _ = model.predict(some[30:])
    assert np.abs(mean - effect[30:]).max() < 0.25


def test_options_of_the_other_side_do_not_matter(space: Space, encoding: Encoding) -> None:
    model = surrogate(encoding, encoding.rows([space.baseline]), np.array([0.0]))
    with_workers = space.canonical(space.baseline.replace(num_workers=4))
    mean, _ = model.predict(encoding.rows([space.baseline, with_workers]))
    assert mean[0] == mean[1]


def test_replicates_teach_the_noise(space: Space, encoding: Encoding) -> None:
    rows = encoding.rows([space.baseline] * 12)
    wave = np.tile([-1.0, 1.0], 6)
    assert surrogate(encoding, rows, 0.01 * wave).noise < surrogate(encoding, rows, 0.1 * wave).noise


def test_a_config_in_other_hands_counts_as_seen_at_its_mean(encoding: Encoding, some: Rows) -> None:
    terms = option_terms(encoding, ("compute",))
    targets = np.linspace(0, 1, 10)
    alone = Surrogate(terms, some[:10], targets)
    waiting = Surrogate(terms, some[:10], targets, believed=some[10:12])
    np.testing.assert_allclose(waiting.predict(some[10:12])[0], alone.predict(some[10:12])[0], atol=1e-6)
    assert (waiting.predict(some[10:12])[1] < alone.predict(some[10:12])[1]).all()


def test_the_default_has_no_uncertain_effect_against_itself(encoding: Encoding) -> None:
    column = encoding.column["channels_last"]
    (term,) = [term for term in option_terms(encoding, ("compute",)) if term.column == column]
    assert term.sd[encoding.default[column]] == 0.0
