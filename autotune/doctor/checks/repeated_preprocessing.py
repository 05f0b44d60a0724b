"""Work on a sample that has the same result on every read, and could be done once. Techniques 19, 23."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.caching import decode, encode, why_not_cached
from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness
from autotune.doctor.reading import Reading
from autotune.doctor.stages import Stage, stable_stages
from autotune.doctor.timing import quickest
from autotune.machine import available_bytes
from autotune.words.figures import memory, percent

LOOK_S = 2.0
TRIED = 16  # samples


def check(context: Context) -> Iterator[Finding]:
    reading = context.reading
    if reading is None or reading.reader.iterable or context.worth(reading.gain(1.0)) is None:
        return
    if context.training.config.value("cache_dataset"):
        return  # it is done once already
    began = context.session.clock()
    dataset = reading.reader.dataset
    reason, size = why_not_cached(dataset, within=lambda: context.session.clock() - began < LOOK_S)
    found = _whole(reading, size) if reason is None else _parts(reading)
    if found is None:
        return
    fraction, what, where, size = found
    gain = reading.gain(fraction)
    if context.worth(gain) is None:
        return
    everything = size * len(dataset)
    fits = everything < available_bytes()
    kept = "memory" if fits else "a file"
    yield Finding(
        check="repeated_preprocessing",
        gives=Gives.SPEED,
        seen=f"{what} has the same result on every read of a sample and takes {percent(fraction)} of its time",
        where=where,
        remedy=_remedy(whole=reason is None, fits=fits),
        gain=gain,
        sure=Sureness.CERTAIN if reason is None else Sureness.LIKELY,
        why=f"if it were done once; kept in {kept}, the results are about {memory(everything)}",
    )


def _remedy(*, whole: bool, fits: bool) -> tuple[str, ...]:
    if whole and fits:
        return (
            "keep the samples in memory: the option cache_dataset (autotune search --allow cache_dataset),",
            "or store what __getitem__ returns once, and load that",
        )
    return ("do it once for all samples and store the results (numpy.memmap, LMDB), or keep them in a dict",)


Found = tuple[float, str, tuple[str, ...], int]
"""part of a sample's time, what takes it, where, and the bytes of a result"""


def _whole(reading: Reading, size: int) -> Found | None:
    """Return what keeping whole samples would save: their time, less that of reading them from memory."""
    dataset = reading.reader.dataset
    samples = [encode(dataset[index]) for index in reading.reader.indices(TRIED)]
    kept_s = quickest(lambda: [decode(sample) for sample in samples], rounds=3) / len(samples)
    plain_s = quickest(lambda: [dataset[index] for index in reading.reader.indices(TRIED)], rounds=2) / len(samples)
    where = _own_lines(reading)
    if plain_s <= kept_s or not where:
        return None
    return min(1.0, (plain_s - kept_s) / reading.sample_s), "all that __getitem__ does", where, size


def _own_lines(reading: Reading) -> tuple[str, ...]:
    """Return where the user's own code reads a sample; empty where none does."""
    frames = [chain[0][0] for chain, _ in reading.chains.items() if chain[0]]
    entries = {frame for frame in frames if frame[1].endswith("__getitem__")}
    seconds = {
        entry: sum(spent for (chain, _), spent in reading.chains.items() if chain and chain[0] == entry)
        for entry in entries
    }
    return tuple(str(entry[0]) for entry in sorted(seconds, key=lambda entry: -seconds[entry])[:3])


def _parts(reading: Reading) -> Found | None:
    """Return the part of the work that has the same result on every read, where the whole has not."""
    stages = stable_stages(reading.reader)
    decoded = [item for item in reading.seen.decoded if item.line is not None]
    by_decoding = _decoding(reading)
    by_stages = sum(stage.fraction for stage in stages)
    if by_stages >= by_decoding:
        return _of_stages(stages) if stages else None
    lines = dict.fromkeys(str(item.line) for item in decoded)
    pixels = sum(3 * item.size[0] * item.size[1] for item in decoded) // max(1, reading.seen.samples)
    return by_decoding, "decoding the images", tuple(lines), pixels


def _decoding(reading: Reading) -> float:
    """Return the part of a sample's time that its decodes take, with what their lines do to open and convert them."""
    seen, chains = reading.seen, reading.chains
    decoding = reading.fraction(sum(item.seconds for item in seen.decoded) / max(1, seen.samples))
    lines = {item.line for item in seen.decoded}
    in_lines = sum(spent for (frames, _), spent in chains.items() if frames and frames[-1][0] in lines)
    # a line may do more than that
    return max(decoding, min(in_lines / max(1e-9, sum(chains.values())), 2 * decoding))


def _of_stages(stages: list[Stage]) -> Found:
    ordered = sorted(stages, key=lambda stage: -stage.fraction)
    names = " and ".join(f"{stage.name}()" for stage in ordered[:2])
    size = sum(stage.bytes for stage in stages)
    return sum(stage.fraction for stage in stages), names, tuple(str(stage.line) for stage in ordered), size
