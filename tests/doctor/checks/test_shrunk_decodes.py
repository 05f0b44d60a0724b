from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from tests.doctor.looking import fault, found_by
from tests.doctor.reads import COMPUTING, reading_of


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    pixels = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).resize((960, 720))
    for name in ("0.jpg", "1.jpg", "2.png"):
        image.save(folder / name)
    return folder


class Photographs(Dataset):
    def __init__(self, folder, size=96, pattern="*.jpg"):
        self.paths, self.size = sorted(folder.glob(pattern)), size

    def __len__(self):
        return 32

    def __getitem__(self, index):
        image = Image.open(self.paths[index % len(self.paths)]).convert("RGB")  # decode
        image = image.resize((self.size, self.size), Image.Resampling.NEAREST)  # shrink
        return torch.from_numpy(np.array(image))


class Drafted(Photographs):
    def __getitem__(self, index):
        image = Image.open(self.paths[index % len(self.paths)])
        image.draft("RGB", (self.size, self.size))
        return torch.from_numpy(np.array(image.resize((self.size, self.size))))


def test_a_full_decode_is_found(photographs):
    (finding,) = found_by("shrunk_decodes", reading_of(lambda: Photographs(photographs)))
    assert finding.where == (fault("decode"), fault("shrink"))
    assert "960 x 720" in finding.seen
    assert "7.5 times smaller" in finding.seen
    assert 'draft("RGB", (128, 96))' in finding.remedy[0]
    assert finding.gain.share > 0.2


def test_what_cannot_be_decoded_smaller_is_to_be_stored_so(photographs):
    (finding,) = found_by("shrunk_decodes", reading_of(lambda: Photographs(photographs, pattern="*.png")))
    assert "store" in finding.remedy[0]


def test_a_reduced_or_used_decode_is_none(photographs):
    assert found_by("shrunk_decodes", reading_of(lambda: Drafted(photographs))) == []
    assert found_by("shrunk_decodes", reading_of(lambda: Photographs(photographs, size=500))) == []
    assert found_by("shrunk_decodes", reading_of(lambda: Photographs(photographs), ceilings=COMPUTING)) == []


def test_opencv_is_seen_too(photographs):
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")

    class WithOpenCv(Photographs):
        def __getitem__(self, index):
            image = cv2.imread(str(self.paths[index % len(self.paths)]))  # opencv
            return torch.from_numpy(cv2.resize(image, (self.size, self.size)))

    (finding,) = found_by("shrunk_decodes", reading_of(lambda: WithOpenCv(photographs)))
    assert finding.where[0] == fault("opencv")
    assert "IMREAD_REDUCED_COLOR_4" in finding.remedy[0]
