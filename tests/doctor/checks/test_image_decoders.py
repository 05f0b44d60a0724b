from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from autotune.doctor import images
from autotune.doctor.checks import image_decoders
from tests.doctor.looking import fault, found_by, vectors
from tests.doctor.reads import reading_of


class Pictures(Dataset):
    def __init__(self, path):
        Image.new("RGB", (64, 64), "red").save(path)
        self.path = path

    def __len__(self):
        return 16

    def __getitem__(self, index):
        image = Image.open(self.path)
        return torch.from_numpy(np.array(image.convert("RGB")))  # fault


def takes(seconds):
    def work(encoded, reduced=1):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    return work


def test_a_faster_decoder_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(image_decoders, "decode_by_pillow", takes(0.004))
    monkeypatch.setattr(image_decoders, "decoders", lambda example: {"cv2": takes(0.001), "turbojpeg": takes(0.002)})
    (finding,) = found_by("image_decoders", reading_of(lambda: Pictures(tmp_path / "one.jpg")))
    assert finding.where == (fault(),)
    assert finding.seen.startswith("cv2 decodes")
    assert "cv2.imread" in finding.remedy[0]


def test_none_that_is_faster_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(image_decoders, "decode_by_pillow", takes(0.002))
    monkeypatch.setattr(image_decoders, "decoders", lambda example: {"cv2": takes(0.002)})
    assert found_by("image_decoders", reading_of(lambda: Pictures(tmp_path / "one.jpg"))) == []
    assert found_by("image_decoders", reading_of(vectors)) == []


def test_what_does_not_import_or_read_is_left_out(tmp_path, monkeypatch):
    def fails(encoded):
        raise ImportError("no such library")

    monkeypatch.setattr(images, "KNOWN", {"none": fails, "pillow": images.decode_by_pillow})
    path = tmp_path / "one.png"
    Image.new("RGB", (8, 6), "red").save(path)
    assert list(images.decoders(str(path))) == ["pillow"]
    assert images.decode_by_pillow(path.read_bytes()).size == (8, 6)


def test_opencv_sees_the_same_pixels(tmp_path):
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    path = tmp_path / "one.png"
    Image.new("RGB", (8, 6), "red").save(path)
    assert (images.decode_by_opencv(str(path))[:, :, ::-1] == np.array(images.decode_by_pillow(str(path)))).all()


def test_pixels_go_back_to_pillow():
    pixels = np.zeros((6, 8, 3), np.uint8)
    pixels[:, :, 0] = 255
    image = images.to_pillow(pixels)
    assert (image.size, image.getpixel((0, 0))) == ((8, 6), (0, 0, 255))
    assert images.to_pillow(torch.zeros(3, 6, 8, dtype=torch.uint8)).size == (8, 6)
