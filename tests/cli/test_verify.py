"""What `autotune verify` asks for, and prints for programs, without measuring anything."""

from __future__ import annotations

import json
import math

import pytest

from autotune.config import Config
from autotune.errors import UsageError
from autotune.numerics import Comparison, Figure, Numerics, Status
from autotune.records import Source
from autotune.search.verification.claim import claim
from autotune.search.verification.design import QUICK
from autotune.search.verification.windows import Bench
from tests.cli.conftest import HEAD
from tests.report.conftest import mixed_records, write_run
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


@pytest.fixture
def asked(monkeypatch):
    """Have nothing verified; what was asked for, by call: source, config, folder, wishes."""
    calls = []

    def verify_config(*given, **_):
        calls.append(given[:4])
        raise UsageError("this far")

    monkeypatch.setattr("autotune.search.check.verify_config", verify_config)
    return calls


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


MADE_ON = {
    "a CPU beside a card": ("torch_device = 'cpu'\ndriver = '570'", "cpu"),
    "a CPU alone": ("torch_device = 'cpu'", ""),
    "the second card": ("torch_device = 'cuda:1'\ndriver = '570'", "cuda:1"),
    "the first card": ("torch_device = 'cuda:0'\ndriver = '570'", ""),
    "nobody knows": ("", ""),
}


@pytest.mark.parametrize("machine", MADE_ON)
@pytest.mark.parametrize("named", ["", "cuda:3"])
def test_the_device_is_that_of_the_search_unless_one_is_named(machine, named, asked, run, write, tmp_path):
    table, device = MADE_ON[machine]
    write("")
    (tmp_path / "best.toml").write_text(
        f"[options]\nbatch_size = 64\n[workload]\nscript = 'train.py'\n[machine]\n{table}\n"
    )
    run("verify", "best.toml", *(["--device", named] if named else []))
    (wishes,) = [wishes for _, _, _, wishes in asked]
    assert wishes.device == (named or device)


def test_a_config_may_have_the_memory_that_the_search_was_given(asked, run, write, tmp_path):
    write("")
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = 64\n[workload]\nscript = 'train.py'\n")
    run("verify", "best.toml", "--memory-limit", "23GiB", "--host-memory-limit", "7GiB", "--headroom", "1%")
    (wishes,) = [wishes for _, _, _, wishes in asked]
    assert (wishes.memory_limit_bytes, wishes.host_memory_limit_bytes, wishes.headroom) == (23 << 30, 7 << 30, 0.01)


@pytest.mark.parametrize("device", ["3", "'../cpu'"])
def test_a_device_that_is_none_is_one_clear_message(device, asked, run, write, tmp_path):
    write("")
    (tmp_path / "best.toml").write_text(
        f"[options]\nbatch_size = 64\n[workload]\nscript = 'train.py'\n[machine]\ntorch_device = {device}\n"
    )
    ended = run("verify", "best.toml")
    ended.check_clear()
    assert ended.status == 2
    assert not asked


def test_a_config_whose_script_is_elsewhere_asks_where(asked, run, tmp_path):
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = 64\n[workload]\nscript = '/elsewhere/train.py'\n")
    ended = run("verify", "best.toml")
    ended.check_clear()
    assert "/elsewhere/train.py, which is not here\nSay where: --script" in ended.message
    assert not asked


def test_the_proof_of_a_search_is_not_replaced(asked, run, write, tmp_path):
    write("")
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = 64\n[workload]\nscript = 'train.py'\n")
    folder = write_run(tmp_path / "run", mixed_records()).folder
    before = sorted(path.name for path in folder.path.rglob("*"))
    ended = run("verify", "best.toml", "--out", "run")
    ended.check_clear()
    assert ended.status == 2
    assert "run holds a search" in ended.message
    assert not asked
    assert sorted(path.name for path in folder.path.rglob("*")) == before
    run("verify", "best.toml", "--out", "windows")
    assert [given.path.name for _, _, given, _ in asked] == ["windows"]


PLAIN = """
if __name__ == "__main__":
    model = nn.Linear(4, 3)
"""
WORKLOAD = """
workload = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=data, loss=nn.CrossEntropyLoss())
"""
FUNCTIONS = """
def build_model():
    return nn.Linear(4, 3)

build_dataset = data
"""
NO_AUTOTUNE = "import torch\nfrom torch import nn\n"
OF_A_PLAIN_ONE = "script = '/elsewhere/train.py'\nunmodified = true\narguments = ['--epochs', '4']\n"
OF_FUNCTIONS = "script = '/elsewhere/train.py'\n[workload.functions]\nmodel = 'make_net'\n"


@pytest.mark.parametrize(
    ("table", "name", "script", "expected"),
    [
        (OF_A_PLAIN_ONE, "train_tune.py", WORKLOAD, {}),
        (OF_A_PLAIN_ONE, "train_tune.py", PLAIN, {"unmodified": True}),
        (OF_A_PLAIN_ONE, "train.py", PLAIN, {"unmodified": True, "arguments": ("--epochs", "4")}),
        (OF_A_PLAIN_ONE, "train.py", FUNCTIONS, {"arguments": ("--epochs", "4")}),
        (OF_FUNCTIONS, "train.py", PLAIN, {"functions": {"model": "make_net"}}),
        (OF_FUNCTIONS, "other.py", PLAIN, {"unmodified": True}),
        ("", "train.py", PLAIN, {"unmodified": True}),
        ("", "train.py", WORKLOAD, {}),
    ],
)
def test_a_script_that_is_named_is_run_in_its_own_way(table, name, script, expected, asked, run, write, tmp_path):
    there = write(script, name, head=HEAD if "data" in script else NO_AUTOTUNE)
    (tmp_path / "best.toml").write_text(f"[options]\nbatch_size = 64\n[workload]\n{table}")
    run("verify", "best.toml", "--script", name, "--baseline", "batch_size=32")
    assert [source for source, *_ in asked] == [Source(script=str(there), **expected)]
