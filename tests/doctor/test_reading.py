from __future__ import annotations

import gzip
import time
import zipfile

import numpy as np
import torch
from PIL import Image, ImageEnhance
from torch.utils.data import Dataset, IterableDataset

from autotune.doctor.stages import stable_stages
from tests.doctor.looking import vectors
from tests.doctor.reads import reading_of


class Files(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.paths[index]))


class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.zeros(5, 3)


def test_files_and_bytes_are_counted_a_sample(tmp_path):
    paths = [str(tmp_path / f"{number}.npy") for number in range(40)]
    for path in paths:
        np.save(path, np.zeros(1000, np.float32))
    seen = reading_of(lambda: Files(paths)).reading.seen
    assert sum(seen.opens.values()) == seen.samples > 0
    assert 4000 * seen.samples <= seen.bytes_read < 20_000 * seen.samples
    assert set(seen.files) <= set(paths)


def test_memory_alone_opens_nothing_and_has_no_lines():
    reading = reading_of(vectors).reading
    assert not reading.seen.opens
    assert not reading.seen.decoded
    assert reading.sample_s > 0


def test_streams_are_read_again_and_again():
    reading = reading_of(Stream).reading
    assert reading.reader.iterable
    assert reading.seen.samples > 5


def test_a_decode_is_known_by_its_resize_through_other_operations(tmp_path):
    path = tmp_path / "one.jpg"
    Image.new("RGB", (400, 200)).save(path)

    class Images(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            image = Image.open(path).convert("RGB").crop((0, 0, 300, 150))
            image = ImageEnhance.Brightness(image).enhance(1.1)
            return torch.from_numpy(np.array(image.resize((50, 50)))).clone()

    decoded = reading_of(Images).reading.seen.decoded
    assert {(item.decoder, item.format, item.size, item.encoded) for item in decoded} == {
        ("PIL", "JPEG", (400, 200), str(path))
    }
    assert {item.shrunk for item in decoded} == {3.0}
    assert Image.open(path).resize((4, 4)).size == (4, 4)  # what was watched is as it was
    assert "_new" in vars(Image.Image)
    assert not hasattr(Image.Image.resize, "__wrapped__")


def test_archives_are_set_back():
    before = zipfile.ZipFile.__init__, gzip.decompress, zipfile.ZipExtFile.read
    reading_of(vectors).reading.seen  # noqa: B018
    assert before == (zipfile.ZipFile.__init__, gzip.decompress, zipfile.ZipExtFile.read)


def test_stable_stages_are_those_that_return_the_same():
    class Mixed(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return self.noisy(self.fixed(index))

        def fixed(self, index):
            time.sleep(0.004)
            return torch.full((3,), float(index))

        def noisy(self, sample):
            time.sleep(0.001)
            return sample + torch.rand(3)

    (stage,) = stable_stages(reading_of(Mixed).reading.reader)
    assert stage.name == "fixed"
    assert stage.fraction > 0.5


def test_work_on_the_pixels_is_timed_until_the_resize(tmp_path):
    path = tmp_path / "one.jpg"
    Image.new("RGB", (200, 200)).save(path)

    class Worked(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            image = Image.open(path).convert("RGB")
            time.sleep(0.01)
            return torch.from_numpy(np.array(image.resize((50, 50)))).clone()

    (item, *_) = reading_of(Worked).reading.seen.decoded
    assert item.worked_s >= 0.01
