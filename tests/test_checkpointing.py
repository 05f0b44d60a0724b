"""Recomputed activations: the same gradients and statistics, less memory, any blocks."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import checkpoint as checkpointing
from torch.utils.data import TensorDataset

from autotune.checkpointing import checkpoint_chain, find_chain
from autotune.errors import WorkloadError
from autotune.probing.probe import probe
from autotune.records import Limits, Source, TrialSpec
from autotune.workload import Workload


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors on a busy machine: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Attention(nn.Module):
    """A block as in real models: a keyword argument, a tuple out."""

    def __init__(self, width: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.mix, self.out, self.dropout = nn.Linear(width, width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        weights = torch.sigmoid(self.mix(x))
        if mask is not None:
            weights = weights * mask
        return x + self.dropout(self.out(weights * x)), weights


class Words(nn.Module):
    def __init__(self, blocks: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Attention(dropout=dropout) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total, mask = x.new_zeros(()), torch.ones(8, dtype=x.dtype)
        for block in self.blocks:
            x, weights = block(x, mask=mask)
            total = total + weights.mean()
        return x.square().mean() + total


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU()) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


class Deep(nn.Module):
    """Plain layers in one nn.Sequential."""

    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        parts = [part for _ in range(layers) for part in (nn.Linear(8, 8), nn.Tanh())]
        self.net = nn.Sequential(*parts, nn.BatchNorm1d(8), nn.Dropout(0.2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).square().mean()


def pair(make: Any, segments: int, seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """Return the same model twice, in double precision, the second one recomputed."""
    torch.manual_seed(seed)
    plain = make().double()
    return plain, checkpoint_chain(copy.deepcopy(plain), segments)


def gradients(model: nn.Module, x: torch.Tensor, seed: int = 3) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(seed)
    model(x).backward()
    return {name: item.grad for name, item in model.named_parameters() if item.grad is not None}


def check_equal(plain: nn.Module, recomputed: nn.Module, x: torch.Tensor) -> None:
    expected, found = gradients(plain, x), gradients(recomputed, x)
    assert found.keys() == expected.keys() == dict(plain.named_parameters()).keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-12, atol=1e-15), name


INPUTS = {Words: (5, 8), Normed: (6, 4, 9), Deep: (7, 8)}


@pytest.mark.parametrize("how", ["retain_graph", "create_graph"])
def test_a_graph_is_gone_through_more_than_once(how):
    """As of a gradient penalty, L-BFGS or a loss that is taken apart."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()) for _ in range(4)))
    segmented = copy.deepcopy(model)
    checkpoint_chain(segmented, 2)
    values = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    found = []
    for one in (model, segmented):
        given = values.clone().requires_grad_()
        loss = one(given).square().sum()
        if how == "retain_graph":
            loss.backward(retain_graph=True)
        else:
            torch.autograd.grad(loss, given, create_graph=True)[0].square().sum().backward(retain_graph=True)
        loss.backward()
        found.append({name: item.grad for name, item in one.named_parameters()})
        assert int(one.state_dict()["0.1.num_batches_tracked"]) == 1
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("segments", [1, 2, 3, 4, 50])
@pytest.mark.parametrize("make", INPUTS)
def test_c38_e4_gradients_are_the_same_with_any_number_of_segments(make, segments):
    """The input needs no gradient: with the reentrant form the first segment would get none."""
    plain, recomputed = pair(make, segments)
    check_equal(plain, recomputed, torch.randn(*INPUTS[make], dtype=torch.double))


def test_c39_dropout_draws_the_same_numbers_again():
    plain, recomputed = pair(lambda: Words(dropout=0.5), 4)
    check_equal(plain, recomputed, torch.randn(5, 8, dtype=torch.double))


class Named(nn.Module):
    """Blocks that get nothing by position."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Attention(dropout=0.5) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x, _ = block(x=x, mask=None)
        return x.square().mean()


def test_c39_the_random_state_kept_is_that_of_the_devices_of_named_arguments_too(monkeypatch):
    """On a CPU it always is; of the others, torch keeps that of what it is given by position."""
    given: list[Any] = []

    def spy(function: Any, *args: Any, **kwargs: Any) -> Any:
        given.append(args)
        return checkpointing.checkpoint(function, *args, **kwargs)

    monkeypatch.setattr("autotune.checkpointing.checkpoint", spy)
    plain, recomputed = pair(Named, 2)
    x = torch.randn(5, 8, dtype=torch.double)
    check_equal(plain, recomputed, x)
    assert [[item.shape for item in args if item is not None] for args in given] == [[x.shape]] * 2


def test_c37_batchnorm_counts_each_step_once():
    plain, recomputed = pair(Normed, 3)
    for seed in range(3):
        x = torch.randn(6, 4, 9, dtype=torch.double)
        gradients(plain, x, seed), gradients(recomputed, x, seed)
    expected, found = plain.state_dict(), recomputed.state_dict()
    assert found["layers.0.1.num_batches_tracked"] == 3
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def saved_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """Return the bytes that the graph of one forward pass keeps, each storage once."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(x)
    assert loss.requires_grad
    weights = {item.untyped_storage().data_ptr() for item in model.parameters()}
    return sum(size for pointer, size in kept.items() if pointer not in weights)


@pytest.mark.parametrize(("make", "segments"), [(lambda: Words(blocks=8), 8), (lambda: Deep(layers=12), 4)])
def test_c40_less_is_kept_for_the_backward_pass(make, segments):
    plain, recomputed = pair(make, segments)
    x = torch.randn(500, 8, dtype=torch.double)
    assert saved_bytes(recomputed, x) < saved_bytes(plain, x) / 1.3


def calls(model: nn.Module, kind: type[nn.Module]) -> list[int]:
    count = [0]

    def note(*_: Any) -> None:
        count[0] += 1

    for module in model.modules():
        if type(module) is kind:
            module.register_forward_pre_hook(note)
    return count


def test_segments_of_a_sequential_recompute_all_but_the_last():
    _, recomputed = pair(lambda: Deep(layers=6), 2)  # 14 layers, in two segments of seven
    count = calls(recomputed, nn.Linear)
    gradients(recomputed, torch.randn(7, 8, dtype=torch.double))
    assert count == [6 + 4]


@pytest.mark.parametrize(("segments", "again"), [(1, 1), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_segments_of_a_list_recompute_so_many_blocks(segments, again):
    _, recomputed = pair(Words, segments)
    count = calls(recomputed, nn.Linear)
    gradients(recomputed, torch.randn(5, 8, dtype=torch.double))
    assert count == [2 * (4 + again)]


@pytest.mark.parametrize("make", [Words, Deep])
def test_evaluation_is_left_alone(make):
    plain, recomputed = pair(make, 2)
    x = torch.randn(*INPUTS[make], dtype=torch.double)
    with torch.no_grad():
        assert not recomputed(x).requires_grad
        plain(x)
    plain.eval(), recomputed.eval()
    assert torch.equal(recomputed(x), plain(x))
    count = calls(recomputed, nn.Linear)
    recomputed(x).backward()
    assert count == [sum(type(module) is nn.Linear for module in recomputed.modules())]


@pytest.mark.parametrize("make", [Words, Deep])
def test_a_copy_of_the_model_is_a_model_of_its_own(make):
    _, recomputed = pair(make, 2)
    other = copy.deepcopy(recomputed)
    with torch.no_grad():
        for item in other.parameters():
            item.zero_()
    x = torch.randn(*INPUTS[make], dtype=torch.double)
    assert not all(gradient.eq(0).all() for gradient in gradients(recomputed, x).values())
    for item, name in ((other, "copy"), (recomputed, "first")):
        gradients(item, x)
        owners = {parameter.grad is None for parameter in item.parameters()}
        assert owners == {False}, name


@pytest.mark.parametrize("make", [Words, Deep])
def test_a_model_saved_whole_can_be_loaded(make):
    plain, recomputed = pair(make, 2)
    file = io.BytesIO()
    torch.save(recomputed, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    check_equal(plain, loaded, torch.randn(*INPUTS[make], dtype=torch.double))


# ---- what is found ----


def test_the_longest_chain_of_blocks_is_found():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.short = nn.ModuleList(Attention() for _ in range(2))
            self.long = nn.ModuleList(Attention() for _ in range(5))
            self.head = nn.Sequential(*[nn.Linear(100, 100) for _ in range(6)])

    chain = find_chain(Both())
    assert chain is not None
    assert (chain.path, chain.kind, len(chain)) == ("long", "blocks", 5)
    named = find_chain(Both(), "head")
    assert named is not None
    assert (named.path, named.kind, len(named)) == ("head", "sequential", 6)


@pytest.mark.parametrize("model", [nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU())])
def test_c38_where_there_is_no_chain_it_is_said(model):
    assert find_chain(model) is None
    with pytest.raises(WorkloadError, match="no chain"):
        checkpoint_chain(model, 2)


def test_a_wrong_path_is_said():
    with pytest.raises(WorkloadError, match=r"checkpoint_blocks='blocks\.9'"):
        find_chain(Words(), "blocks.9")


# ---- what the probe refuses ----


class Parity(nn.Module):
    """Behaves differently each second time it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(8, 8), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) * (1.0 if self.calls % 2 else -2.0) + x


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = nn.Linear(8, 8), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.layer(x))


class InPlace(nn.Module):
    """A random activation that writes over its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rrelu_(self.layer(x), training=True) + x


class Stack(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(kind() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def refusal(kind: type[nn.Module]) -> str | None:
    workload = Workload(
        model=lambda: Stack(kind),
        dataset=lambda: TensorDataset(torch.randn(64, 8), torch.randn(64, 8)),
        loss=nn.functional.mse_loss,
        baseline={"batch_size": 8},
    )
    spec = TrialSpec(
        number=0,
        kind="probe",
        config={},
        baseline={},
        source=Source(),
        device="cpu",
        limits=Limits(host_bytes=1 << 40),
        record_path="",
    )
    return probe(workload, spec, lambda *_: None, {"import_s": 0.0}).chain_refused


def test_c39_blocks_with_dropout_are_accepted():
    assert refusal(Plain) is None


def test_c39_blocks_that_count_their_calls_are_refused():
    found = refusal(Parity)
    assert found is not None


def test_c74_an_activation_in_place_is_right_or_refused():
    """torch gave wrong gradients for it without a word; where it no longer does, there is nothing to refuse."""
    assert refusal(InPlace) in (None, "recomputing blocks changes its gradients: a block keeps state between calls")
