"""A faster image decoder than Pillow that is installed here, timed on the user's own files. Technique 21."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness
from autotune.doctor.images import Decode, Encoded, decode_by_pillow, decoders, to_pillow
from autotune.doctor.timing import typical
from autotune.words.figures import duration, percent

TRIED = 12  # images
FASTER = 0.67  # of the time of Pillow: making its image of another library costs, too
CALLS = {
    "cv2": "cv2.imread(path)[:, :, ::-1]  # OpenCV has blue first",
    "torchvision.io": "torchvision.io.decode_image(path, torchvision.io.ImageReadMode.RGB)  # a tensor, 3 x H x W",
    "turbojpeg": "turbojpeg.TurboJPEG().decode(data)[:, :, ::-1]  # one object a process; blue first",
}


def check(context: Context) -> Iterator[Finding]:
    reading = context.reading
    if reading is None or context.worth(reading.gain(1.0)) is None:
        return
    seen = reading.seen
    images = [item for item in seen.decoded if item.decoder == "PIL" and item.line is not None]
    tried = [item.encoded for item in images if item.encoded is not None][:TRIED]
    if not tried:
        return
    pillow_s = _seconds(decode_by_pillow, tried)
    back = to_pillow if any(item.worked_s for item in images) else _as_it_is
    others = {
        name: _seconds(lambda image, decode=decode: back(decode(image)), tried)  # type: ignore[misc]
        for name, decode in decoders(tried[0]).items()
    }
    best = min(others, key=lambda name: others[name], default="")
    if not best or others[best] > FASTER * pillow_s:
        return
    decode_s = sum(item.seconds for item in images) / max(1, seen.samples)
    fraction = reading.fraction(decode_s * (1.0 - others[best] / pillow_s))
    gain = reading.gain(fraction)
    if context.worth(gain) is None:
        return
    yield Finding(
        check="image_decoders",
        gives=Gives.SPEED,
        seen=f"{best} decodes these images in {duration(others[best])}, Pillow in {duration(pillow_s)}: "
        f"{percent(fraction)} of a sample's time",
        where=tuple(dict.fromkeys(str(item.line) for item in images)),
        remedy=(CALLS[best],),
        gain=gain,
        sure=Sureness.LIKELY,
        why=f"{len(tried)} of your own files were decoded by each; pixels may differ by rounding",
    )


def _as_it_is(decoded: Any) -> Any:
    return decoded


def _seconds(decode: Decode, images: list[Encoded]) -> float:
    """Return the seconds of the processor's for one image: what others do meanwhile must not decide between two."""
    return typical(lambda: [decode(image) for image in images], clock=time.process_time) / len(images)
