"""What the guard's figures say in a sentence, in a file, and on the screen; and that records keep them."""

from __future__ import annotations

import tomllib

import tomli_w
from rich.console import Console

from autotune.documents import from_json, to_json
from autotune.numerics import Comparison, Figure, Numerics, Status, not_checked
from autotune.records import Outcome, TrialRecord
from autotune.report.numerics import comparison_lines, numerics_lines

EXACT = Comparison(
    claim="exact",
    options={"channels_last": True},
    gradient_error=Figure(value=2e-6, parameter="stem.weight"),
    allowed_error=8e-6,
    baseline_error=2e-6,
    cosine=Figure(value=1.0, parameter="head.bias"),
    norm_ratio=Figure(value=1.0, parameter="head.bias"),
    loss_difference=0.0,
    allowed_loss_difference=1e-3,
    losses=(2.0, 1.9),
    with_gradient=4,
    changed=4,
)
ROUNDED = Comparison(
    claim="rounded",
    options={"channels_last": True, "precision": "fp16"},
    cosine=Figure(value=0.99712, parameter="head.bias"),
    norm_ratio=Figure(value=1.02, parameter="stem.weight"),
    loss_difference=2e-3,
    allowed_loss_difference=0.05,
    losses=(2.0, 1.91),
    with_gradient=4,
    changed=4,
    skipped_steps=3,
)
PASSED = Numerics(
    status=Status.PASSED,
    reference="float64",
    steps=2,
    with_gradient=4,
    baseline_losses=(2.0, 1.9),
    comparisons=(EXACT, ROUNDED),
    notes=("a note",),
)


def test_sentence_names_each_option_once_with_what_it_keeps() -> None:
    assert PASSED.sentence == (
        "numerics checked beside the baseline over 2 steps: channels_last as exact as it (gradient error 2e-06); "
        "precision within rounding (gradient cosine 0.9971 or more), 3 steps skipped by the gradient scaler"
    )
    assert not_checked("no time was left").sentence == "numerics not checked: no time was left"
    assert Numerics(status=Status.FAILED, reason="it breaks").sentence == "numerics failed: it breaks"
    assert "changes nothing" in Numerics(status=Status.UNTOUCHED).sentence


def test_figures_are_toml_with_the_worst_parameter_by_name() -> None:
    figures = PASSED.figures()
    assert tomllib.loads(tomli_w.dumps(figures)) == figures
    assert figures["exact"]["gradient_error_of"] == "stem.weight"
    assert figures["rounded"]["cosine"] == 0.99712
    assert figures["rounded"]["skipped_steps"] == 3
    assert not_checked("no time was left").figures() == {"status": "not checked", "reason": "no time was left"}


def test_a_record_keeps_them() -> None:
    record = TrialRecord(number=1000, kind="numerics", config={}, outcome=Outcome.OK, numerics=PASSED)
    assert from_json(TrialRecord, to_json(record)) == record


def test_show_has_every_figure() -> None:
    lines = [*numerics_lines(PASSED), *comparison_lines(EXACT), *comparison_lines(ROUNDED)]
    console = Console(record=True, width=200)
    for label, text in lines:
        console.print(label, text, markup=False)
    text = console.export_text()
    for said in ("float64", "a note", "stem.weight", "0.997120", "1.020000", "4 changed", "3 by the gradient scaler"):
        assert said in text, said
