"""What `autotune verify` prints for programs, without measuring anything."""

from __future__ import annotations

import json
import math

import pytest

from autotune.config import Config
from autotune.numerics import Comparison, Figure, Numerics, Status
from autotune.search.verification.claim import claim
from autotune.search.verification.design import QUICK
from autotune.search.verification.windows import Bench
from tests.report.html.conftest import Machine

DIVERGED = Numerics(
    status=Status.FAILED,
    reason="the loss is not finite",
    comparisons=(
        Comparison(
            claim="rounded",
            options={"precision": "fp16"},
            gradient_error=Figure(value=math.inf, parameter="weight"),
            losses=(2.3, math.nan, -math.inf),
        ),
    ),
)


@pytest.fixture
def verified(monkeypatch):
    """Have a config verified that diverges."""
    found = claim(
        Bench(Machine()), Config(batch_size=64), Config(batch_size=64, precision="bf16"), QUICK, alpha=0.05, seed=0
    )
    monkeypatch.setattr("autotune.search.check.verify_config", lambda *_, **__: (found, DIVERGED))
    return found


def test_json_has_null_where_a_number_is_not_finite(verified, run, write, tmp_path):
    write("")
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = 64\n[workload]\nscript = 'train.py'\n")
    ended = run("verify", "best.toml", "--json")
    assert ended.status == 1  # the maths fail
    document = json.loads(ended.out, parse_constant=pytest.fail)
    assert document["verdict"] == verified.verdict.value
    (comparison,) = document["numerics"]["comparisons"]
    assert comparison["losses"] == [2.3, None, None]
    assert comparison["gradient_error"] == {"value": None, "parameter": "weight"}
