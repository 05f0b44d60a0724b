"""Out of memory: of the memory that decides whether a config fits, or of another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.errors import DoesNotFit, SearchFailed
from autotune.options.space import Space
from autotune.records import Failure, Outcome, TrialRecord
from autotune.search import observation
from autotune.search.dead_ends import nothing_usable
from autotune.search.measured import Measured
from autotune.search.model.belief import Belief
from autotune.search.observation import Observation
from autotune.trials.folder import RunFolder
from tests.search.conftest import LIMIT_BYTES, observe


def short_of(space: Space, reason: str, accelerator: bool) -> tuple[TrialRecord, Observation]:
    config = space.baseline.replace(num_workers=4)
    failure = Failure(reason=reason, message=f"{reason}: enlarge it")
    record = TrialRecord(number=3, config=dict(config), outcome=Outcome.OUT_OF_MEMORY, failure=failure)
    return record, observation.observe(record, config, LIMIT_BYTES, accelerator)


@pytest.mark.parametrize(
    ("reason", "accelerator", "beside"),
    [
        ("out of device memory?", True, ""),
        ("out of host memory?", True, "host"),
        ("over the host memory limit", True, "host"),
        ("out of shared memory", True, "shared"),
        ("out of shared memory", False, "shared"),
        ("over the host memory limit", False, ""),
        ("out of host memory", False, ""),
    ],
)
def test_only_the_memory_that_decides_bounds_what_fits(
    small_space: Space, reason: str, accelerator: bool, beside: str
) -> None:
    _, seen = short_of(small_space, reason, accelerator)
    assert (seen.beside, seen.fits) == (beside, None if beside else False)
    assert Observation.from_dict(seen.to_dict()) == seen
    known = [observe(small_space.baseline)]
    before, after = Belief(small_space, known), Belief(small_space, [*known, seen])
    rows = before.encoding.rows([small_space.baseline.replace(batch_size=64), seen.config])
    normals = np.zeros((1, 3))
    assert (after.fits(rows)[0] == before.fits(rows)[0]) == bool(beside)
    # another memory is a failure, charged to what differs: the workers
    assert (after.outlook(rows, normals).runs[1] < 0.5) == bool(beside)
    assert after.outlook(rows, normals).runs[0] > 0.9


def test_a_search_without_an_answer_names_the_memory(small_space: Space, tmp_path: Path) -> None:
    def error(reason: str) -> DoesNotFit | SearchFailed:
        record, seen = short_of(small_space, reason, True)
        return nothing_usable([Measured(seen.config, [record], [seen])], RunFolder(tmp_path), "device")

    assert " of device memory: 1 of 1 trials ran out of it" in error("out of device memory").message
    shared = error("out of shared memory")
    assert isinstance(shared, SearchFailed)
    assert "the trials: 1 out of shared memory; trial 3: out of shared memory: enlarge it" in shared.message
