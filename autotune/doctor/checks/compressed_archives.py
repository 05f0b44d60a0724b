"""Random access to compressed archives, and archives that are opened again for every sample."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives
from autotune.doctor.lines import Line
from autotune.words.figures import percent

REMEDIES = {
    "opened": ("open it once in each process and keep it: if self.archive is None: self.archive = open_it()",),
    "searched": ("make the table of members once and keep it with the open archive, or unpack the files once",),
    "unpacked": ("unpack it once, or store it without compression (zip -0, tar without z, HDF5 without filters)",),
}
WORDS = {
    "opened": "opening {kind} archives again and again",
    "searched": "looking for members in {kind} archives",
    "unpacked": "decompressing {kind} data",
}


def check(context: Context) -> Iterator[Finding]:
    reading = context.reading
    if reading is None or context.worth(reading.gain(1.0)) is None:
        return
    seen = reading.seen
    found: dict[str, list[tuple[float, Line | None]]] = {}
    for (what, line), seconds in seen.unpacked.items():
        found.setdefault(what, []).append((seconds, line))
    for what, places in found.items():
        kind, _, done = what.partition(" ")
        fraction = reading.fraction(sum(seconds for seconds, _ in places) / max(1, seen.samples))
        gain = reading.gain(fraction)
        if context.worth(gain) is None:
            continue
        ordered = sorted(places, key=lambda place: -place[0])
        yield Finding(
            check="compressed_archives",
            gives=Gives.SPEED,
            seen=f"{WORDS[done].format(kind=kind)} takes {percent(fraction)} of a sample's time",
            where=tuple(str(line) for _, line in ordered if line is not None) or (f"{kind} archive",),
            remedy=REMEDIES[done],
            gain=gain,
            why="if that were free; reading what is stored plainly costs little",
        )
