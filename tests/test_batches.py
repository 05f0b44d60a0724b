"""C13: batches of any structure are moved, cloned and described; types are kept, and what is no tensor stays."""

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from autotune.batches import clone, describe, map_tensors, move, nbytes, shapes, tensors

META = torch.device("meta")
Pair = namedtuple("Pair", ["image", "label"])


@dataclass
class Record:
    image: torch.Tensor
    name: str
    boxes: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    image: torch.Tensor


class Encoding(UserDict):
    """Like BatchEncoding: a mapping that moves itself in place and returns itself."""

    def to(self, device):
        self.data = {key: value.to(device) for key, value in self.data.items()}
        return self


@dataclass
class Output(OrderedDict):
    """Like the outputs of transformers' models: its items are its fields, and `update` is refused."""

    logits: Any = None
    hidden: Any = None

    def __post_init__(self):
        self["logits"], self["hidden"] = self.logits, self.hidden

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        object.__setattr__(self, name, value)

    def update(self, *_args, **_kwargs):
        raise Exception("You cannot use update on this")


class Graph:
    """Moves itself and returns nothing."""

    def __init__(self, x):
        self.x = x

    def to(self, device):
        self.x = self.x.to(device)


class Tensors(list):
    """A list of its own kind, with an attribute."""

    size = None


def image():
    return torch.zeros(2, 3, 4, 4)


def sized(items, size):
    items = Tensors(items)
    items.size = size
    return items


SHAPES = {
    "tensor": lambda: image(),
    "list": lambda: [image(), torch.zeros(2, dtype=torch.long)],
    "tuple": lambda: (image(), torch.zeros(2)),
    "dict": lambda: {"image": image(), "label": torch.zeros(2)},
    "nested dict with strings": lambda: {"image": image(), "meta": {"name": ["a", "b"], "mask": torch.zeros(2)}},
    "list of dicts": lambda: [image(), [{"boxes": torch.zeros(1, 4)}, {"boxes": torch.zeros(3, 4)}]],
    "named tuple": lambda: Pair(image(), torch.zeros(2)),
    "dataclass": lambda: Record(image(), "a", [torch.zeros(1)]),
    "frozen dataclass": lambda: Frozen(image()),
    "ordered dict": lambda: OrderedDict(b=image(), a=torch.zeros(2)),
    "default dict": lambda: defaultdict(list, image=image()),
    "read-only mapping": lambda: MappingProxyType({"image": image()}),
    "model output": lambda: Output(logits=image(), hidden=(torch.zeros(2),)),
    "own list": lambda: sized([image()], 7),
    "mapping that moves itself": lambda: Encoding(image=image()),
    "object that moves itself": lambda: Graph(image()),
    "packed sequence": lambda: pack_padded_sequence(torch.zeros(3, 2, 4), torch.tensor([3, 2])),
    "none and numbers": lambda: [image(), None, 3, 2.5, "text", b"bytes", True],
    "empty": lambda: {"image": image(), "boxes": [], "none": ()},
}


@pytest.mark.parametrize("name", SHAPES)
def test_c13_every_tensor_moves_and_types_are_kept(name):
    batch = SHAPES[name]()
    kind, count = type(batch), len(list(tensors(batch)))
    moved = move(batch, META)
    assert type(moved) is kind
    found = list(tensors(moved))
    assert len(found) == count > 0
    placed = [item for item in found if item.numel() and not (name == "packed sequence" and item.dim() == 1)]
    assert all(item.device.type == "meta" for item in placed)  # a packed sequence's sizes stay on the host


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "read-only mapping"])
def test_clone_is_independent(name):
    batch = SHAPES[name]()
    before = [item.clone() for item in tensors(batch)]
    copied = clone(batch)
    assert type(copied) is type(batch)
    assert shapes(copied) == shapes(batch)
    for item in tensors(copied):
        item.add_(1)
    assert all(torch.equal(old, item) for old, item in zip(before, tensors(batch), strict=True))


def test_c13_what_is_no_tensor_stays():
    array = np.zeros(3)
    moved = move([image(), "text", None, 3, array, {"ids": ["a"]}], META)
    assert moved[1:4] == ["text", None, 3]
    assert moved[4] is array
    assert moved[5] == {"ids": ["a"]}


def test_c13_integers_are_not_cast_and_the_batch_itself_is_not_changed():
    batch = {"label": torch.zeros(2, dtype=torch.uint8), "flag": torch.ones(2, dtype=torch.bool)}
    moved = move(batch, META)
    assert (moved["label"].dtype, moved["flag"].dtype) == (torch.uint8, torch.bool)
    assert batch["label"].device.type == "cpu"


def test_attributes_of_a_list_of_its_own_kind_are_kept():
    assert move(sized([image()], 7), META).size == 7


def test_default_dict_keeps_its_factory():
    assert move(defaultdict(list, image=image()), META)["nothing"] == []


def test_structure_that_refers_to_itself_ends():
    batch = [image()]
    batch.append(batch)
    assert shapes(move(batch, META))[0] == (2, 3, 4, 4)


def test_transforms_see_every_tensor_in_order():
    seen = []
    move(
        [image(), (torch.zeros(1), "x")], torch.device("cpu"), transforms=[lambda item: seen.append(item.dim()) or item]
    )
    assert seen == [4, 1]


def test_map_tensors_rebuilds_named_tuples_with_a_constructor_of_their_own():
    assert map_tensors(Pair(torch.ones(1), None), lambda item: item + 1) == Pair(torch.tensor([2.0]), None)


def test_bytes_and_shapes():
    batch = {"image": image(), "label": torch.zeros(2, dtype=torch.long)}
    assert nbytes(batch) == 2 * 3 * 4 * 4 * 4 + 2 * 8
    assert shapes(batch) == ((2, 3, 4, 4), (2,))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_whose_parts_differ_in_shape(layout):
    batch = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)], layout=layout)
    assert describe([batch]) == "[float32[2, ...]]"
    assert shapes([batch]) == ((2, 18),)
    assert nbytes([batch]) == 18 * 4
    assert clone([batch])[0].size(0) == 2


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        ([torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)], "[float32[2, 3], int64[2]]"),
        ((torch.zeros(1),), "(float32[1])"),
        ({"a": torch.zeros(1), "b": ["x", None]}, "{'a': float32[1], 'b': [str, NoneType]}"),
        (Pair(torch.zeros(1), 3), "Pair(float32[1], int)"),
        (Record(torch.zeros(1), "a"), "Record(image=float32[1], name=str, boxes=[])"),
        (OrderedDict(a=torch.zeros(1)), "OrderedDict{'a': float32[1]}"),
        (Graph(image()), "Graph"),
        ([torch.zeros(1)] * 9, "[" + "float32[1], " * 6 + "... 3 more]"),
        ([[[[[torch.zeros(1)]]]]], "[[[[...]]]]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_describe(batch, text):
    assert describe(batch) == text
