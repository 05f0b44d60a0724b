from __future__ import annotations

import dataclasses
import io

from rich.console import Console

from autotune.doctor.findings import Basis, Ceilings, Diagnosis, Finding, Gain, Gives, LoaderRate, in_order
from autotune.documents import from_json, to_json
from autotune.report.doctor import print_diagnosis

CEILINGS = Ceilings(
    step_s=0.1,
    uncertainty=0.02,
    samples_per_step=64,
    workers=2,
    wait_s=0.03,
    compute_s=0.05,
    loader_s=0.08,
    launch_s=0.004,
    operations=310,
    loaders=(LoaderRate(workers=0, samples_per_s=500.0), LoaderRate(workers=2, samples_per_s=800.0)),
    bound_by="input",
    flops_per_sample=2e7,
    matmul_flops=5e10,
    kinds={"convolution": 0.6, "element-wise": 0.4},
)


def finding(gives, share=0.0, saved_bytes=0, **others):
    gain = Gain(share=share, basis=Basis.BOUND, saved_bytes=saved_bytes)
    parts = {"check": "some", "seen": f"seen {share}", "where": ("train.py:3",), "remedy": ("do this",), "gain": gain}
    return Finding(**{**parts, "gives": gives, **others})


def shown(findings=(), **changes):
    parts = {"config": {"batch_size": 64}, "device": "cpu", "device_name": "a [processor]", "cores": 2.0}
    found = Diagnosis(**{**parts, "ceilings": CEILINGS, "findings": tuple(findings), **changes})
    out = io.StringIO()
    print_diagnosis(Console(file=out, width=140), from_json(Diagnosis, to_json(found)), "train.py")
    return out.getvalue()


def test_findings_come_by_what_they_gain():
    findings = [finding(Gives.ACCELERATOR), finding(Gives.SPEED, 0.1), finding(Gives.RESULT), finding(Gives.SPEED, 0.4)]
    assert [item.gain.share for item in in_order(findings)] == [0.4, 0.1, 0.0, 0.0]
    assert [item.gives for item in in_order(findings)][2:] == [Gives.RESULT, Gives.ACCELERATOR]


def test_a_finding_has_figure_place_remedy_gain_and_sureness():
    text = shown([finding(Gives.SPEED, 0.4, why="because")])
    for part in ("seen 0.4", "train.py:3", "do this", "at most 40 % of the step's time (1.67x)", "certain", "because"):
        assert part in text


def test_a_measured_gain_says_so_and_memory_has_its_bytes():
    gain = Gain(share=0.25, basis=Basis.MEASURED, half_width=0.02)
    text = shown([finding(Gives.SPEED, gain=gain), finding(Gives.MEMORY, saved_bytes=300 << 20)])
    assert "25 % of the step's time (1.33x), measured with and without, within ± 2.0 %" in text
    assert "300 MiB of memory" in text


def test_the_ceilings_come_first():
    text = shown()
    for part in (
        "A step takes 0.10 s (640 samples/s): 30 ms waiting for data, 50 ms compute, 20 ms contention with the loader.",
        "bound by its input",
        "1280 samples/s (2.00x)",
        "800 samples/s (1.25x)",
        "500 with 0, 800 with 2",
        "310 operations",
        "convolution 60 %",
        "51 % of the 50.0 GFLOP/s of a matrix product here in fp32",
    ):
        assert part in text
    assert "a [processor]" in text
    assert "Nothing found" in text


def test_more_than_the_machine_can_do_is_explained_where_convolutions_explain_it():
    words = "convolutions take fewer operations than are counted"
    beyond = dataclasses.replace(CEILINGS, matmul_flops=2e10)
    other = dataclasses.replace(beyond, kinds={"matmul": 1.0})
    found = [words in " ".join(shown(ceilings=item).split()) for item in (beyond, CEILINGS, other)]
    assert found == [True, False, False]


def test_notes_and_long_lists_of_places():
    text = shown([finding(Gives.SPEED, 0.4, where=tuple(f"train.py:{line}" for line in range(9)))], notes=("busy",))
    assert "note: busy" in text
    assert "train.py:5 and 3 more" in text
