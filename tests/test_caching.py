"""Samples that are kept: the same as read, shared by all workers, within the memory there is."""

from __future__ import annotations

import copy
import pickle
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from autotune.caching import Cached, Caches, Store, decode, encode, why_not_cached
from autotune.config import Config
from autotune.tuned import Tuned

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Point(NamedTuple):
    x: float
    name: str


SAMPLES = {
    "tensor": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
    "permuted": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "part of a larger one": torch.arange(1000)[10:20:2],
    "scalar": torch.tensor(3, dtype=torch.int8),
    "empty": torch.empty(0, 4),
    "expanded": torch.ones(1).expand(3, 4),
    "complex": torch.tensor([1 + 2j]),
    "bool": torch.tensor([True, False]),
    "gradient": torch.ones(2, requires_grad=True),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "sparse": torch.eye(3).to_sparse(),
    "array": np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
    "number": np.float32(0.1),
    "nested": {"a": [1, 2.5, None, "text", b"bytes"], "b": (torch.ones(2), {"c": Point(1.0, "p")})},
}


def same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, torch.Tensor):
        return (
            first.dtype == second.dtype
            and first.shape == second.shape
            and first.requires_grad == second.requires_grad
            and first.layout == second.layout
            and torch.equal(first.to_dense(), second.to_dense())
        )
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and first.strides == second.strides and np.array_equal(first, second)
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


@pytest.mark.filterwarnings("ignore:.*sparse.*")
@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_comes_back_as_it_was(name):
    sample = SAMPLES[name]
    found = decode(encode(sample))
    assert same(sample, found)
    if type(sample) is torch.Tensor and not sample.is_sparse and name not in ("part of a larger one", "expanded"):
        assert found.stride() == sample.stride()


def test_a_view_of_a_large_tensor_is_kept_without_the_rest():
    assert len(encode(torch.zeros(1_000_000)[:4])) < 1000


class Counted(Dataset[Any]):
    """Notes each read in a file, whatever process it happens in."""

    def __init__(self, folder: Path, length: int = 24) -> None:
        self.log, self.length, self.extra = folder / "reads", length, "mine"
        self.log.touch()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
        if not 0 <= index < self.length:
            raise IndexError(index)
        with self.log.open("a") as log:
            log.write(f"{index}\n")
        return torch.full((5,), float(index)), index, f"sample {index}"

    def reads(self) -> list[int]:
        return sorted(map(int, self.log.read_text().split()))


class Batched(Counted):
    """Reads a whole batch at once."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def epochs(loader: Any, count: int = 2) -> list[list[Any]]:
    return [[(x.tolist(), y.tolist(), z) for x, y, z in loader] for _ in range(count)]


@pytest.mark.parametrize("kind", [Counted, Batched])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"num_workers": 2},
        {"num_workers": 2, "persistent_workers": True},
    ],
    ids=["in the process", "fork", "fork, persistent"],
)
def test_each_sample_is_read_once_for_all_processes_and_epochs(kind, how, tmp_path):
    dataset = kind(tmp_path)
    (tmp_path / "plain").mkdir()
    plain = epochs(DataLoader(kind(tmp_path / "plain"), batch_size=5))
    kept = Cached(dataset)
    loader = DataLoader(kept, batch_size=5, **how)
    assert epochs(loader) == plain
    assert dataset.reads() == list(range(24))
    assert kept.store.count == 24
    assert [kept[index][1] for index in range(24)] == list(range(24))  # in this process, too
    assert len(dataset.reads()) == 24


@pytest.mark.slow  # each worker imports torch anew
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_workers_that_are_not_forked_share_the_samples(method, tmp_path):
    dataset = Counted(tmp_path)
    loader = DataLoader(Cached(dataset), batch_size=5, num_workers=2, multiprocessing_context=method)
    epochs(loader)
    assert dataset.reads() == list(range(24))


def test_a_sample_changed_in_place_is_not_changed_for_the_next_reader(tmp_path):
    kept = Cached(Counted(tmp_path))
    for _ in range(3):
        sample = kept[3]
        assert sample[0].tolist() == [3.0] * 5
        sample[0].zero_()


def test_everything_else_of_the_dataset_is_there(tmp_path):
    dataset = Counted(tmp_path)
    kept = Cached(dataset)
    assert (len(kept), kept.extra) == (24, "mine")
    kept.extra = "changed"
    assert dataset.extra == "changed"
    with pytest.raises(AttributeError, match="Counted"):
        _ = kept.missing
    with pytest.raises(IndexError):
        kept[24]
    assert not hasattr(kept, "__getitems__")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_a_copy_elsewhere_begins_empty(duplicate, tmp_path):
    kept = Cached(Counted(tmp_path))
    kept[1]
    other = duplicate(kept)
    assert (kept.store.count, other.store.count) == (1, 0)
    assert other[1][1] == 1


def test_what_does_not_fit_is_read_each_time(tmp_path):
    dataset = Counted(tmp_path)
    kept = Cached(dataset, Store(24, limit_bytes=2 * (len(encode(dataset[0])) + 8) + 10))
    assert [kept[index][1] for index in [0, 1, 2, 0, 1, 2]] == [0, 1, 2, 0, 1, 2]
    assert kept.store.count == 2
    assert dataset.reads() == [0, 0, 1, 2, 2]


def test_memory_is_that_of_the_samples_and_let_go_with_the_store():
    store = Store(100)
    empty = store.nbytes
    for index in range(100):
        store.write(index, bytes(10_000))
    assert 1_000_000 <= store.nbytes - empty < 1_100_000
    for file in (store._index_file, store._data):
        assert Path(f"/proc/self/fd/{file}").exists()
    assert store.read(99) == bytes(10_000)


class Draws(Dataset[Any]):
    """Augments by one of the generators that people use."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), float(index)), self.draw()


GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize(
    "draw",
    [random.random, np.random.rand, lambda: torch.rand(1), GENERATOR.random, lambda: random.random() < 0.5],
    ids=["random", "numpy", "torch", "own generator", "coin"],
)
def test_a_dataset_that_draws_at_random_is_refused(draw):
    reason, _ = why_not_cached(Draws(draw))
    assert reason is not None
    assert "two reads of sample" in reason


def test_looking_leaves_the_random_numbers_as_they_were():
    before = random.getstate(), torch.get_rng_state()
    why_not_cached(Draws(lambda: (random.random(), torch.rand(1))))
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(range(3))


def test_other_reasons_to_refuse():
    assert "stream" in str(why_not_cached(Stream())[0])
    assert "cannot be kept" in str(why_not_cached(Draws(lambda: (x for x in ())))[0])
    assert why_not_cached(Draws(lambda: 1))[0] is None


def test_bytes_of_a_sample_are_counted():
    _, size = why_not_cached(TensorDataset(torch.zeros(40, 1000)))
    assert 4000 < size < 4300


def test_a_training_keeps_one_cache_for_each_dataset(tmp_path):
    dataset = Counted(tmp_path)
    with Tuned(Config(cache_dataset=True), device="cpu") as tuned:
        first, second = (tuned.loader(dataset, batch_size=4) for _ in range(2))
        part = tuned.loader(Subset(dataset, range(8)), batch_size=4)
        epochs(first)
        epochs(second)
        epochs(part)
        assert first.dataset is second.dataset
        assert len(tuned.caches.stores) == 1
    looked = 4  # before: whether it stays the same
    assert len(dataset.reads()) == 24 + looked


def test_a_training_whose_data_changed_warns_and_reads_them_each_time():
    dataset = Draws(random.random)
    caches = Caches()
    with pytest.warns(UserWarning, match="cache_dataset is left out: two reads of sample 0 differ"):
        assert caches.over(dataset) is dataset
    assert caches.over(dataset) is dataset  # said once
