"""torch.compile in place: keys, classes that compile nothing by themselves, checkpointing, and what a machine lacks.

The aot_eager backend stands in for inductor where the C++ does not matter; never the eager one, which gives wrong
gradients with checkpointing and says nothing.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from autotune.compiling import Compiles, end_workers, own_compile, so_far, why_no_compiler
from autotune.config import Config
from autotune.tuned import Tuned

COMPILED = Config(compile_mode="default")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile by AOTAutograd alone, without C++."""
    compile = torch.compile

    def stand_in(function: Any, mode: str) -> Any:
        assert mode == "default"
        return compile(function, backend="aot_eager")

    monkeypatch.setattr(torch, "compile", stand_in)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Block(nn.Module):
    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(8, 8), nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(8) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(torch.relu(self.norm(self.linear(x))))


class Blocks(nn.Module):
    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(norm) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class OwnCompile(Blocks):
    """As of models that are compiled with an optimizer, in Keras's manner."""

    def compile(self, optimizer: Any) -> None:  # type: ignore[override]
        raise AssertionError("this compile is the user's own")


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)


def graphs_of(model: nn.Module, *shape: int) -> int:
    before = so_far().graphs
    model(torch.randn(*shape)).sum().backward()
    return so_far().graphs - before


@pytest.mark.parametrize(
    ("build", "shape"),
    [(Blocks, (4, 8)), (OwnCompile, (4, 8)), (layers, (4, 8)), (encoder, (2, 3, 8))],
    ids=["own forward", "own compile", "Sequential", "TransformerEncoder"],
)
def test_c21_c76_every_model_is_compiled_and_keeps_its_keys(quick, build, shape):
    model = build()
    keys, kind = list(model.state_dict()), type(model)
    tuned = Tuned(COMPILED, device="cpu").model(model)
    assert tuned is model
    assert type(tuned) is kind
    assert graphs_of(tuned, *shape) >= 1
    assert list(tuned.state_dict()) == keys
    file = io.BytesIO()
    torch.save(tuned.state_dict(), file)
    file.seek(0)
    build().load_state_dict(torch.load(file), strict=True)


def test_sequentials_own_compile_compiles_nothing():
    """Why the forward is compiled there: should this change, it need not be any more."""
    torch._dynamo.reset()
    model = layers()
    model.compile(backend="aot_eager")
    assert graphs_of(model, 4, 8) == 0


def test_copies_of_a_compiled_model_run_by_themselves(quick):
    """An average of the weights, a model saved whole."""
    model = Tuned(COMPILED, device="cpu").model(layers())
    model(torch.randn(4, 8))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            for item in twin.parameters():
                item.zero_()
        assert not twin(torch.randn(4, 8)).any()
    assert model(torch.randn(4, 8)).any()


def gradients(model: nn.Module, config: Config) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """Return output, gradients and buffers after a step with the same dropout each time."""
    model = copy.deepcopy(model)
    with Tuned(config, device="cpu") as tuned:
        compiled = tuned.model(model)
        torch.manual_seed(1)
        output = compiled(torch.linspace(-1, 1, 64).reshape(8, 8))
        output.square().sum().backward()
    return output.detach(), {name: item.grad for name, item in model.named_parameters()}, dict(model.named_buffers())


def assert_alike(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", [False, True], ids=["", "BatchNorm"])
def test_c67_compiled_checkpoints_have_the_same_gradients_and_statistics(quick, norm):
    torch.manual_seed(0)
    model = Blocks(norm)
    plain = gradients(model, Config())
    before = so_far().graphs
    assert_alike(gradients(model, COMPILED.replace(checkpoint_segments=4)), plain)
    assert so_far().graphs > before


def test_c67_so_do_they_by_inductor():
    from torch._inductor import config

    if (lacks := why_no_compiler("cpu")) is not None:
        pytest.skip(lacks)
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Blocks()
    before = so_far()
    with config.patch(fallback_random=True):  # the same dropout as without compiling
        found = gradients(model, COMPILED.replace(checkpoint_segments=4))
    assert_alike(found, gradients(model, Config()))
    now = so_far()
    assert now.graphs > before.graphs
    assert now.seconds > before.seconds
    end_workers()
    torch._dynamo.reset()


@pytest.mark.slow
def test_a_smaller_activation_budget_gives_the_same_gradients_without_dropout():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Blocks().eval()
    wanted = gradients(model, Config())
    assert_alike(gradients(model, COMPILED.replace(activation_memory_budget=30)), wanted)


def test_switches_of_compiling_are_set_back():
    from torch._functorch import config

    with Tuned(COMPILED.replace(activation_memory_budget=30, matmul_precision="high"), device="cpu"):
        assert config.activation_memory_budget == 0.3
        assert torch.get_float32_matmul_precision() == "high"
    assert config.activation_memory_budget == 1.0
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_model_that_compiles_itself_is_noticed(quick):
    assert not own_compile(layers())
    for build in (partial(torch.compile, mode="default"), _in_place, _forward):
        assert own_compile(nn.Sequential(build(Blocks())))


def _in_place(model: nn.Module) -> nn.Module:
    model.compile(mode="default")
    return model


def _forward(model: nn.Module) -> nn.Module:
    model.forward = torch.compile(model.forward, mode="default")
    return model


def test_c68_no_compiler_is_said():
    from torch._inductor import config

    with config.patch({"cpp.cxx": (None, "no-such-compiler")}):
        assert "C++ compiler" in (why_no_compiler("cpu") or "")


def test_c68_missing_headers_are_said(monkeypatch, tmp_path):
    if why_no_compiler("cpu") is not None:
        pytest.skip("there is no compiler to begin with")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert "Python.h" in (why_no_compiler("cpu") or "")


def test_what_was_compiled_is_cheap_to_ask_and_comparable():
    assert so_far() == so_far()
    assert Compiles() == Compiles(0, 0.0, False)
