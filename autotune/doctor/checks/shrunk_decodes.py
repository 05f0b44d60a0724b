"""Images that are decoded in full and then made more than twice smaller. Techniques 19, 21."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness
from autotune.doctor.images import Encoded, decode_by_opencv, decode_by_pillow
from autotune.doctor.lines import Line
from autotune.doctor.timing import typical
from autotune.doctor.watching import Decoded
from autotune.words.figures import percent, significant

SHRUNK = 2.0  # times a side
TRIED = 12  # images that are decoded again
REDUCED = ("JPEG", "MPO")  # formats that can be decoded at a half, a quarter or an eighth


def check(context: Context) -> Iterator[Finding]:
    reading = context.reading
    if reading is None or context.worth(reading.gain(1.0)) is None:
        return
    seen = reading.seen
    groups: defaultdict[tuple[Line, bool, str], list[Decoded]] = defaultdict(list)
    for item in seen.decoded:
        if item.shrunk is not None and item.shrunk >= SHRUNK and item.line is not None:
            groups[item.line, item.format in REDUCED, item.decoder].append(item)
    for (line, reducible, decoder), images in groups.items():
        saved = sum(_saved_share(item, reducible) for item in images[:TRIED]) / min(TRIED, len(images))
        decoding_s = sum(item.seconds for item in images) / max(1, seen.samples)
        # what is done to the pixels until they are made fewer has fewer to do, too
        working_s = sum(item.worked_s * _fewer_pixels(item, reducible) for item in images) / max(1, seen.samples)
        fraction = reading.fraction(saved * decoding_s + working_s)
        gain = reading.gain(fraction)
        if context.worth(gain) is None:
            continue
        example = min(images, key=lambda item: item.shrunk or 0.0)
        shrunk = example.shrunk or 1.0
        size = (int(example.size[0] / shrunk), int(example.size[1] / shrunk))
        places = dict.fromkeys([line, *(item.shrunk_at for item in images if item.shrunk_at is not None)])
        yield Finding(
            check="shrunk_decodes",
            gives=Gives.SPEED,
            seen=f"images of {example.size[0]} x {example.size[1]} are decoded in full and then made at least "
            f"{significant(shrunk, 2)} times smaller a side; {percent(fraction)} of a sample's time could be spared",
            where=tuple(str(place) for place in places),
            remedy=_remedy(decoder, reducible, size, shrunk),
            gain=gain,
            sure=Sureness.CERTAIN if reducible else Sureness.LIKELY,
            why=("the same files were decoded in full and reduced; " if reducible else "")
            + "what is done until the resize counts by its pixels",
        )


def _remedy(decoder: str, reducible: bool, size: tuple[int, int], shrunk: float) -> tuple[str, ...]:
    if not reducible:
        return ("make the images smaller once and store them so; JPEG can also be decoded smaller",)
    if decoder == "cv2":
        return (f"cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_{_power(shrunk)})",)
    return (
        f'image = Image.open(path); image.draft("RGB", ({size[0]}, {size[1]}))  # before load, convert, crop',
        "# image.size is smaller then, and coordinates of crops shrink with it",
    )


def _power(shrunk: float) -> int:
    """Return the largest reduction that leaves no fewer pixels than are used."""
    return max(power for power in (1, 2, 4, 8) if power <= shrunk)


def _fewer_pixels(item: Decoded, reducible: bool) -> float:
    """Return the share of the pixels that is spared."""
    factor = _power(item.shrunk or 1.0) if reducible else item.shrunk or 1.0
    return 1.0 - 1.0 / factor**2


def _saved_share(item: Decoded, reducible: bool) -> float:
    """Return the share of the decode's time that decoding no larger than needed saves."""
    if not reducible:
        return _fewer_pixels(item, reducible)
    if item.encoded is None:
        return 0.0
    encoded, power = item.encoded, _power(item.shrunk or 1.0)
    decode = decode_by_opencv if item.decoder == "cv2" else decode_by_pillow
    # by the processor's clock, since the two are compared, and others may stop the longer one more often
    full, reduced = (_processor_s(decode, encoded, factor) for factor in (1, power))
    return max(0.0, 1.0 - reduced / full)


def _processor_s(decode: Callable[[Encoded, int], Any], encoded: Encoded, factor: int) -> float:
    return max(1e-9, typical(lambda: decode(encoded, factor), clock=time.process_time))
