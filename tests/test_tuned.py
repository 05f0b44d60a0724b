"""Tuned: nothing changes under the defaults, and each option changes what it says and nothing else."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler, TensorDataset

from autotune.config import Config
from autotune.errors import UsageError
from autotune.tuned import Tuned, TunedLoader

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small tensors on a busy machine: threads would wait for each other."""
    torch.set_num_threads(1)  # set back by the fixture that every test gets


EVERY_OPTION = [
    Config(),
    Config(batch_size=4),
    Config(num_workers=1, prefetch_factor=4, persistent_workers=True),
    Config(channels_last=True),
    Config(checkpoint_segments=2),
    Config(checkpoint_segments=3, channels_last=True, precision="bf16"),
    Config(precision="bf16"),
    Config(precision="fp16"),
    Config(cudnn_benchmark=True),
    Config(num_threads=1),
    Config(drop_last=True),
    Config(num_workers=1, worker_affinity=True, cache_dataset=True),
    Config(num_workers=1, multiprocessing_context="fork"),
    Config(expandable_segments=True),
    Config(deterministic=True),
]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.norm(self.convolution(x)))


class Pictures(nn.Module):
    """Convolutions, BatchNorm, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(Block(8) for _ in range(3))
        self.dropout, self.head = nn.Dropout(0.3), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.dropout(x.mean((2, 3))))


class Words(nn.Module):
    """A small transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.table(tokens)).mean(1))


def pictures() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(30, 3, 8, 8, generator=generator), torch.arange(30) % 3)


def words() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randint(11, (30, 7), generator=generator), torch.arange(30) % 3)


def plain_losses(make: type[nn.Module], dataset: Dataset[Any], workers: int, clip: float | None) -> list[float]:
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(2):
        for inputs, target in DataLoader(dataset, batch_size=8, shuffle=True, num_workers=workers):
            loss = cross_entropy(model(inputs), target)
            optimizer.zero_grad()
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            losses.append(loss.item())
    return losses


def tuned_losses(
    make: type[nn.Module], dataset: Dataset[Any], workers: int, clip: float | None, config: Config | None = None
) -> list[float]:
    torch.manual_seed(0)
    with Tuned(config, device="cpu") as tuned:
        model = tuned.model(make())
        optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=1e-2)
        losses = []
        for _ in range(2):
            for inputs, target in tuned.loader(dataset, batch_size=8, shuffle=True, num_workers=workers):
                with tuned.autocast():
                    loss = cross_entropy(model(inputs), target)
                tuned.backward(loss)
                assert tuned.step(optimizer, clip_norm=clip)
                losses.append(loss.item())
    return losses


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("make", "data"), [(Pictures, pictures), (Words, words)])
def test_under_the_defaults_the_losses_are_the_same_bit_for_bit(make, data, workers, clip):
    assert tuned_losses(make, data(), workers, clip) == plain_losses(make, data(), workers, clip)


@pytest.mark.parametrize("config", [Config(num_workers=1), Config(num_threads=1)], ids=str)
def test_options_that_do_not_touch_the_result_keep_the_losses(config):
    assert tuned_losses(Words, words(), 0, None, config) == pytest.approx(plain_losses(Words, words(), 0, None))


@pytest.mark.parametrize("config", EVERY_OPTION, ids=str)
def test_c21_no_option_changes_the_keys_of_a_checkpoint(config):
    """Both ways: what a tuned model saves a plain one loads, and the other way round."""
    plain = Pictures()
    with Tuned(config, device="cpu") as tuned:
        model = tuned.model(Pictures())
        optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=1e-2)
        for inputs, target in tuned.loader(pictures(), batch_size=10):
            with tuned.autocast():
                loss = cross_entropy(model(inputs), target)
            tuned.backward(loss)
            tuned.step(optimizer)
    assert list(model.state_dict()) == list(plain.state_dict())
    plain.load_state_dict(model.state_dict(), strict=True)
    model.load_state_dict(plain.state_dict(), strict=True)
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32, torch.int64}


# ---- precision ----


class Scaled(nn.Module):
    """Its output's gradient, in the half format, is that of the loss times a factor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1, bias=False)

    def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
        return (self.layer(x).float() * factor).sum()


def half_step(tuned: Tuned, model: nn.Module, optimizer: Any, factor: float, **arguments: Any) -> bool:
    with tuned.autocast():
        loss = model(torch.full((1, 4), 1e-2), factor)
    tuned.backward(loss)
    return tuned.step(optimizer, **arguments)


@pytest.mark.parametrize("made_by_tuned", [True, False])
def test_c35_fp16_says_when_an_update_was_skipped(made_by_tuned):
    tuned = Tuned(Config(precision="fp16"), device="cpu")
    model = tuned.model(Scaled())
    make = partial(tuned.optimizer, torch.optim.SGD) if made_by_tuned else torch.optim.SGD
    optimizer = make(model.parameters(), lr=1.0)
    before = model.layer.weight.detach().clone()
    assert half_step(tuned, model, optimizer, 2.0) is False  # 65536 x 2 is no fp16 number
    assert torch.equal(model.layer.weight, before)
    assert tuned.state_dict()["scaler"]["scale"] == 32768.0
    assert half_step(tuned, model, optimizer, 1.0) is True
    assert model.layer.weight.detach() == pytest.approx(before - 1e-2, abs=1e-4)
    assert model.layer.weight.grad is None


def test_fp16_clips_true_gradients_not_scaled_ones():
    tuned = Tuned(Config(precision="fp16"), device="cpu")
    model = tuned.model(Scaled())
    optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=1.0)
    before = model.layer.weight.detach().clone()
    assert half_step(tuned, model, optimizer, 0.5, clip_norm=1e-4)
    assert (model.layer.weight.detach() - before).norm().item() == pytest.approx(1e-4, rel=1e-2)


def test_the_scalers_state_goes_through_a_checkpoint():
    first, second = (Tuned(Config(precision="fp16"), device="cpu") for _ in range(2))
    model = first.model(Scaled())
    half_step(first, model, first.optimizer(torch.optim.SGD, model.parameters(), lr=1.0), 2.0)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    plain = Tuned(device="cpu")
    plain.load_state_dict(first.state_dict())
    assert plain.state_dict() == {}


def test_several_optimizers_share_a_backward_pass():
    for config in (Config(), Config(precision="fp16")):
        tuned = Tuned(config, device="cpu")
        model = tuned.model(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))
        parts = tuned.optimizer(lambda net: [torch.optim.SGD(part.parameters(), lr=0.5) for part in net], model)
        assert tuned.optimizers == parts
        before = [item.detach().clone() for item in model.parameters()]
        with tuned.autocast():
            loss = model(torch.ones(2, 4)).float().sum() * 0.01
        tuned.backward(loss)
        assert tuned.step(parts, clip_norm=1.0)
        assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_bf16_is_the_format_of_matrix_products_and_not_of_weights(precision, dtype):
    tuned = Tuned(Config(precision=precision), device="cpu")
    model = tuned.model(nn.Linear(4, 3))
    with tuned.autocast():
        assert model(torch.ones(2, 4)).dtype is dtype
    assert model.weight.dtype is torch.float32
    assert tuned.autocast_entered == 1


# ---- layout ----


def test_c32_channels_last_lays_out_weights_and_images_alone():
    tuned = Tuned(Config(channels_last=True), device="cpu")
    model = tuned.model(Pictures())
    assert model.stem.weight.is_contiguous(memory_format=torch.channels_last)
    assert not model.stem.weight.is_contiguous()
    assert model.head.weight.is_contiguous()
    batch = {
        "image": torch.randn(2, 3, 8, 8),
        "mask": torch.randn(2, 8, 8),
        "classes": torch.zeros(2, 3, 8, 8, dtype=torch.long),
        "label": torch.zeros(2),
        "name": ["a", "b"],
    }
    placed = tuned.place(batch)
    assert placed["image"].stride() == (192, 1, 24, 3)
    for name in ("mask", "classes", "label"):
        assert placed[name].is_contiguous()
        assert placed[name].stride() == batch[name].stride()
    assert placed["name"] == ["a", "b"]


def test_c32_volumes_have_a_layout_of_their_own():
    tuned = Tuned(Config(channels_last=True), device="cpu")
    model = tuned.model(nn.Sequential(nn.Conv3d(2, 4, 3), nn.Conv1d(4, 4, 1)))
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last_3d)
    assert model[1].weight.is_contiguous()
    assert tuned.place(torch.randn(1, 2, 5, 5, 5)).is_contiguous(memory_format=torch.channels_last_3d)


# ---- switches ----


def test_switches_are_set_back():
    before = torch.get_num_threads()
    with Tuned(Config(num_threads=before + 1), device="cpu"):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    tuned = Tuned(Config(num_threads=before + 1, cudnn_benchmark=True), device="cpu")
    assert torch.backends.cudnn.benchmark
    tuned.restore()
    tuned.restore()
    assert torch.get_num_threads() == before
    assert not torch.backends.cudnn.benchmark


def test_switches_are_set_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="mine"), Tuned(Config(num_threads=before + 1), device="cpu"):
        raise ValueError("mine")
    assert torch.get_num_threads() == before


def test_a_device_that_is_not_there_is_said():
    with pytest.raises(UsageError, match="no such device: gpu"):
        Tuned(device="gpu")


# ---- loaders ----


def host(config: Config, dataset: Any = None, **arguments: Any) -> DataLoader[Any]:
    found = Tuned(config, device="cpu").loader(dataset or pictures(), **arguments).host
    assert isinstance(found, DataLoader)
    return found


def test_the_config_wins_and_the_call_fills_what_it_leaves_open():
    found = host(Config(batch_size=16), batch_size=4, num_workers=1, drop_last=True, shuffle=True)
    assert (found.batch_size, found.num_workers, found.drop_last) == (16, 1, True)
    assert isinstance(found.sampler, RandomSampler)
    assert host(Config(num_workers=1, prefetch_factor=4), batch_size=4).prefetch_factor == 4
    assert host(Config(), batch_size=4).batch_size == 4
    assert host(Config()).batch_size == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"prefetch_factor": 4},
        {"persistent_workers": True},
        {"multiprocessing_context": "spawn"},
        {"prefetch_factor": 4, "persistent_workers": True, "multiprocessing_context": "fork", "timeout": 5},
    ],
)
def test_c28_c1_what_needs_workers_goes_where_the_config_has_none(arguments):
    found = host(Config(num_workers=0), num_workers=2, batch_size=4, **arguments)
    assert found.num_workers == 0
    assert len(next(iter(found))[0]) == 4


def test_c52_a_batch_sampler_decides_the_batches():
    sampler = BatchSampler(SequentialSampler(range(30)), 5, drop_last=False)
    found = host(Config(batch_size=16, num_workers=0), batch_sampler=sampler)
    assert found.batch_sampler is sampler
    assert [len(batch[0]) for batch in found] == [5] * 6


def test_a_dataset_of_whole_batches_keeps_them():
    found = host(Config(batch_size=16), dataset=[torch.zeros(3, 2), torch.zeros(5, 2)], batch_size=None)
    assert [len(batch) for batch in found] == [3, 5]


def test_a_loader_shows_what_the_users_own_one_has():
    class Epochs(SequentialSampler):
        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    data = pictures()
    loader = Tuned(Config(), device="cpu").loader(data, batch_size=8, sampler=Epochs(data))
    assert len(loader) == 4
    assert loader.dataset is data
    loader.sampler.set_epoch(3)
    assert loader.host.sampler.epoch == 3
    assert len(list(loader)) == len(list(loader)) == 4
    with pytest.raises(AttributeError):
        loader.no_such_thing  # noqa: B018
    assert copy.copy(loader).batch_size == 8


def test_batches_of_a_loader_of_ones_own_are_placed_and_transformed():
    tuned = Tuned(Config(channels_last=True), device="cpu")
    tuned.batch_transform = lambda batch: {"image": batch["image"] + 1}
    loader = tuned.batches([{"image": torch.zeros(2, 3, 4, 4)}])
    assert isinstance(loader, TunedLoader)
    (batch,) = loader
    assert batch["image"].max() == 1
    assert batch["image"].is_contiguous(memory_format=torch.channels_last)
    assert len(loader) == 1


# ---- optimizers ----


def test_arguments_of_an_optimizer_are_merged():
    tuned = Tuned(Config(), device="cpu")
    tuned._plan.optimizer["foreach"] = True
    model = nn.Linear(4, 3)
    optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=0.5, foreach=False)
    assert (optimizer.defaults["lr"], optimizer.defaults["foreach"]) == (0.5, True)
    assert tuned.optimizers == [optimizer]


def test_drop_last_leaves_out_the_rest_and_what_the_user_leaves_out_stays_out():
    with Tuned(Config(batch_size=8, drop_last=True), device="cpu") as tuned:
        assert len(tuned.loader(pictures())) == 3
    with Tuned(Config(batch_size=8, drop_last=False), device="cpu") as tuned:
        assert len(tuned.loader(pictures(), drop_last=True)) == 3


def test_b2_drop_last_for_other_data_keeps_some():
    """A config is made for the training data; a loader over fewer samples than a batch must not become empty."""
    with Tuned(Config(batch_size=64, drop_last=True), device="cpu") as tuned:
        with pytest.warns(UserWarning, match="leave out all of the 30 samples"):
            assert len(tuned.loader(pictures())) == 1
        assert len(tuned.loader(pictures(), batch_sampler=BatchSampler(SequentialSampler(range(30)), 10, False))) == 3
        assert len(tuned.loader(pictures(), batch_size=None)) == 30
