"""The image decoders that are installed here, each as a function of the encoded file."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

Encoded = str | bytes
Decode = Callable[[Encoded], Any]
"""from a file, or its bytes, to the decoded image, as the library has it"""


def decode_by_pillow(encoded: Encoded, reduced: int = 1) -> Any:
    """Return the image, decoded by Pillow; JPEGs at a half, a quarter or an eighth of a side where `reduced`."""
    from PIL import Image

    with Image.open(encoded if isinstance(encoded, str) else io.BytesIO(encoded)) as image:
        if reduced > 1:
            image.draft(None, (image.width // reduced, image.height // reduced))
        return image.convert("RGB")


def decode_by_opencv(encoded: Encoded, reduced: int = 1) -> Any:
    """Return the pixels, decoded by OpenCV, in its order of colours."""
    import numpy as np

    cv2: Any = importlib.import_module("cv2")
    flag = cv2.IMREAD_COLOR if reduced == 1 else getattr(cv2, f"IMREAD_REDUCED_COLOR_{reduced}")
    return cv2.imdecode(np.frombuffer(_bytes(encoded), dtype=np.uint8), flag)


def _torchvision(encoded: Encoded) -> Any:
    import numpy as np
    import torch

    vision: Any = importlib.import_module("torchvision.io")
    data = torch.from_numpy(np.frombuffer(_bytes(encoded), dtype=np.uint8).copy())
    return vision.decode_image(data, vision.ImageReadMode.RGB)


def _turbojpeg(encoded: Encoded) -> Any:
    turbojpeg: Any = importlib.import_module("turbojpeg")
    return _turbo(turbojpeg).decode(_bytes(encoded))


def _turbo(turbojpeg: Any) -> Any:
    """Return the library's decoder, made once: it loads a shared library."""
    made = getattr(turbojpeg, "_autotune_decoder", None)
    if made is None:
        made = turbojpeg._autotune_decoder = turbojpeg.TurboJPEG()
    return made


KNOWN: dict[str, Decode] = {
    "cv2": decode_by_opencv,
    "torchvision.io": _torchvision,
    "turbojpeg": _turbojpeg,
}


def decoders(example: Encoded) -> dict[str, Decode]:
    """Return the decoders beside Pillow that are installed here and can read the example."""
    found = {}
    for name, decode in KNOWN.items():
        try:
            decode(example)
        except Exception:  # not installed, without its shared library, or another format: all the same to us
            continue
        found[name] = decode
    return found


def to_pillow(decoded: Any) -> Any:
    """Return what another library decoded as an image of Pillow's, for code that goes on with that."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(decoded)
    if pixels.shape[0] == 3:  # torchvision's order
        pixels = np.moveaxis(pixels, 0, 2)
    return Image.fromarray(np.ascontiguousarray(pixels[:, :, ::-1]))


def _bytes(encoded: Encoded) -> bytes:
    return Path(encoded).read_bytes() if isinstance(encoded, str) else encoded
