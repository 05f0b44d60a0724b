"""Configs as rows: nothing is lost, and inert options are one level."""

from __future__ import annotations

import numpy as np

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.model import candidates as pool
from autotune.search.model.encoding import Encoding


def test_rows_and_configs_are_the_same_thing(space: Space) -> None:
    encoding = Encoding(space)
    configs = [space.baseline, space.expert(), space.canonical(Config(batch_size=64, num_workers=4))]
    assert [encoding.config(row) for row in encoding.rows(configs)] == configs


def test_every_canonical_config_is_listed_once(small_space: Space) -> None:
    encoding = Encoding(small_space)
    rows = pool.everything(encoding)
    configs = [encoding.config(row) for row in rows]
    assert len(set(configs)) == len(configs) == pool.count(encoding) == 24
    assert all(small_space.canonical(config) == config for config in configs)


def test_the_count_needs_no_list(space: Space) -> None:
    encoding = Encoding(space)
    assert len(pool.everything(encoding)) == pool.count(encoding)


def test_values_beside_the_choices_have_a_place_between_them(space: Space) -> None:
    encoding = Encoding(space, [space.baseline.replace(batch_size=40)])
    place = encoding.positions(encoding.column["batch_size"])
    level = {value: encoding.level("batch_size", value) for value in (32, 40, 48)}
    assert place[level[32]] < place[level[40]] < place[level[48]]


def test_neighbours_differ_in_two_options_at_most(small_space: Space) -> None:
    encoding = Encoding(small_space)
    start = encoding.rows([small_space.baseline])
    near = pool.neighbours(encoding, start)
    parents = [column for column, parent in enumerate(encoding.parent) if parent is None]
    assert ((near != start)[:, parents].sum(axis=1) <= 2).all()
    assert len(pool.distinct(encoding, near)) == len(near) > 10


def test_drawn_configs_are_canonical_and_distinct(space: Space) -> None:
    encoding = Encoding(space)
    rows = pool.drawn(encoding, 500, np.random.default_rng(0))
    np.testing.assert_array_equal(encoding.canonical(rows), rows)
    assert len(np.unique(encoding.keys(rows))) == len(rows)


def test_known_rows_are_left_out(small_space: Space) -> None:
    encoding = Encoding(small_space)
    rows = pool.everything(encoding)
    assert len(pool.without(encoding, rows, rows[:7])) == 17
