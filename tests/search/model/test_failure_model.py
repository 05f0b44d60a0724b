"""Failures are charged to what the failing config does not share with successful ones."""

from __future__ import annotations

import numpy as np

from autotune.options.space import Space
from autotune.search.model.encoding import Encoding
from autotune.search.model.failures import FailureModel


def test_the_value_that_never_worked_is_blamed(space: Space) -> None:
    encoding = Encoding(space)
    base = space.baseline
    half, other = base.replace(precision="fp16"), base.replace(channels_last=True)
    failing = encoding.rows([half])
    model = FailureModel(encoding, encoding.rows([base]), failing, np.array([False]))
    runs = model.runs(encoding.rows([base, half, half.replace(channels_last=True), other]))
    assert runs[0] == runs[3] == 1.0
    assert runs[1] == runs[2] == 0.2


def test_success_elsewhere_clears_a_value(space: Space) -> None:
    encoding = Encoding(space)
    base = space.baseline
    half, laid_out = base.replace(precision="fp16"), base.replace(channels_last=True)
    both = half.replace(channels_last=True)
    model = FailureModel(encoding, encoding.rows([base, half]), encoding.rows([both]), np.array([False]))
    runs = model.runs(encoding.rows([half, laid_out]))
    assert runs[0] == 1.0
    assert runs[1] == 0.2


def test_an_unsupported_value_never_runs(space: Space) -> None:
    encoding = Encoding(space)
    half = space.baseline.replace(precision="fp16")
    model = FailureModel(encoding, encoding.rows([space.baseline]), encoding.rows([half]), np.array([True]))
    assert model.runs(encoding.rows([half]))[0] == 0.0


def test_nothing_is_held_against_anyone_at_first(space: Space) -> None:
    encoding = Encoding(space)
    none = encoding.rows([])
    model = FailureModel(encoding, none, none, np.zeros(0, dtype=bool))
    assert (model.runs(encoding.rows([space.baseline, space.expert()])) == 1.0).all()
