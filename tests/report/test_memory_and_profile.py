from __future__ import annotations

import io

from rich.console import Console

from autotune.doctor.memory.account import Account, Fit, MemoryReport, ModuleBytes, Moment, Tried
from autotune.doctor.profile.data import Operation, Profile, Profiles
from autotune.report.memory import fit_lines, print_memory
from autotune.report.profile import print_profiles

MIB = 1 << 20


def printed(show, *arguments):
    text = io.StringIO()
    show(Console(file=text, width=80), *arguments)
    return text.getvalue()


def account(**changes):
    moments = [
        Moment(phase=phase, parts={"parameters": 10 * MIB, "activations": size * MIB})
        for phase, size in (("forward", 10), ("backward", 30), ("optimizer", 0))
    ]
    figures = {
        "config": {"batch_size": 8},
        "device": "cpu",
        "device_name": "a processor",
        "batch_size": 8,
        "peak": moments[1],
        "timeline": tuple(moments),
        "modules": (ModuleBytes(place="blocks.0 (train.py:7)", kind="Block", bytes=30 * MIB),),
        "needed": 100 * MIB,
    }
    return Account(**{**figures, **changes})


def test_the_parts_add_up_and_bars_are_as_long_as_their_bytes():
    text = printed(print_memory, MemoryReport(account=account()), "train.py")
    assert "beside them: Python, libraries, allocator, loader workers  60.0 MiB" in text
    assert "blocks.0 (train.py:7)" in text
    bars = {line.split()[0]: line.split()[1] for line in text.splitlines() if line.split()[1:2] and "PPP" in line}
    assert bars["optimizer"].count("A") == 0
    assert len(bars["forward"]) * 2 == len(bars["backward"])
    assert bars["backward"].count("A") == 3 * bars["backward"].count("P")


def test_an_accelerator_has_workspace_and_fragmentation():
    on_card = account(accelerator=True, allocated=70 * MIB, snapshot="memory-snapshot.pickle")
    assert (on_card.unseen, on_card.fragmentation) == (30 * MIB, 30 * MIB)
    text = printed(print_memory, MemoryReport(account=on_card), "train.py")
    assert "cached and fragmented" in text
    assert "memory-snapshot.pickle" in text


def test_what_fits_is_said_with_its_prediction_and_the_size_that_did_not():
    tried = (
        Tried(batch_size=8, predicted=None, needed=100 * MIB),
        Tried(batch_size=64, predicted=190 * MIB, needed=None),
        Tried(batch_size=32, predicted=150 * MIB, needed=152 * MIB),
    )
    fit = Fit(limit=200 * MIB, batch_size=32, fixed_bytes=80 * MIB, sample_bytes=2 * MIB, tried=tried)
    assert fit_lines(fit) == [
        "Batch size 32 fits into 200 MiB: it was run and took 152 MiB, 150 MiB were predicted.",
        "Near there the peak is 80.0 MiB + 2.00 MiB a sample.",
        "Batch size 64 was run, too, and ran out of memory.",
    ]


def profiled(**shares):
    return Profile(
        config={"batch_size": 8},
        device="cpu",
        device_name="a processor",
        steps=4,
        step_s=0.1,
        samples_per_step=8.0,
        operations=tuple(
            Operation(name=f"aten::{name}", seconds=share / 10, calls=2.0, share=share)
            for name, share in shares.items()
        ),
        trace="out/baseline.trace.json.gz",
        trace_bytes=60_000,
    )


def test_operations_stand_with_both_shares():
    both = Profiles(before=profiled(mm=0.75, relu=0.25), after=profiled(mm=0.5, copy_=0.5))
    rows = [line.split() for line in printed(print_profiles, both, "train.py").splitlines()]
    assert ["mm", "75", "%", "50", "%", "9.4", "ms", "6.2", "ms"] in rows
    assert ["copy_", "-", "50", "%", "-", "6.2", "ms"] in rows


def test_today_alone_has_one_share():
    text = printed(print_profiles, Profiles(before=profiled(mm=1.0)), "train.py")
    assert "today: batch_size=8; a step takes about 0.10 s (80.0 samples/s)" in text
    assert "before" not in text
    assert "ui.perfetto.dev" in text
