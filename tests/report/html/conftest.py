"""Runs of every kind, with everything in them that a real search leaves behind, and a browser to look at them."""

from __future__ import annotations

import pytest

from autotune.config import Config
from autotune.report.html.page import write_page
from autotune.search.explain import BatchMemory, Expected, Explanation, ValueEffect
from autotune.search.verification import Verification, verify
from tests.report.conftest import mixed_records, write_run
from tests.report.factory import GIB, ok
from tests.report.html.browser import Browser, missing

BEST = Config(batch_size=128, precision="bf16", num_workers=4)
SAME_BATCH = Config(batch_size=64, precision="bf16")
SPEED = {64: 0.001, 128: 0.00052}
"""seconds a sample by batch size"""


@pytest.fixture(scope="session")
def browser():
    if reason := missing():
        pytest.skip(reason)
    found = Browser()
    yield found
    found.close()


@pytest.fixture
def saw(browser):
    """Return a function that opens a run's page, which must not complain, and gives the browser."""

    def look(run, explanation=None, **options):
        browser.open(write_page(run, explanation), **options)
        assert browser.complaints() == []
        assert browser.requests() == []
        return browser

    return look


@pytest.fixture(scope="module")
def verified_page(browser, tmp_path_factory):
    """Return the browser with the page of a verified run open in it, for tests that leave it as it is.

    Tests that open a page of their own come after those that use this one.
    """
    browser.open(write_page(verified_run(tmp_path_factory.mktemp("page") / "run"), beliefs()))
    return browser


class Machine:
    """Windows of a verification without a machine: the baseline's time, and what a config makes of it."""

    def __init__(self):
        self.records = []

    def __call__(self, config, label):
        number = 1000 + len(self.records)
        wobble = 1 + 0.01 * (number % 3)
        time_s = SPEED[config.value("batch_size")] * (0.7 if config.value("precision") == "bf16" else 1.0)
        record = ok(number, dict(config), kind="verification", sample_s=time_s * wobble)
        self.records.append(record)
        return record


@pytest.fixture
def verified(tmp_path):
    return verified_run(tmp_path / "run")


def verified_run(path, **info):
    """Return a run with both answers, each verified, as the search leaves it."""
    machine = Machine()
    found = verify(machine, Config(batch_size=64), [BEST, SAME_BATCH], window_s=1.0)
    records = [record for record in mixed_records() if record.kind != "verification"] + machine.records
    run = write_run(path, records, **info)
    emit(run.folder, found)
    return run


def emit(folder, found: Verification) -> None:
    """Write verification.json and the two configs, as the search does."""
    from autotune.search.verification import sentence

    found.save(folder.verification)
    for claim, path in zip(found.claims(), (folder.best, folder.best_same_batch), strict=False):
        options = "\n".join(f"{name} = {value!r}".replace("'", '"') for name, value in claim.candidate.items())
        figures = f'verdict = "{claim.verdict.value}"\nspeedup = {claim.comparison.speedup:.4f}\n'
        status = f'[measured]\nstatus = "{sentence(claim)}"\n{figures}'
        path.write_text(f'[options]\n{options}\n{status}[notes]\nlines = ["mind the learning rate"]\n')


@pytest.fixture
def believed():
    return beliefs()


def beliefs():
    """Return what the models may say of the run that `mixed` makes."""
    effect = {"option": "precision", "in_best": False, "ratio": 1.4, "spread": 0.1}
    return Explanation(
        effects=(
            ValueEffect(**{**effect, "value": "bf16", "in_best": True, "ratio": 1.0, "spread": 0.0}),
            ValueEffect(**effect, value="fp32"),
        ),
        memory=tuple(
            BatchMemory(batch_size=size, peak_bytes=size * GIB // 64, fits=0.9, measured_bytes=known)
            for size, known in ((64, None), (128, 2 * GIB), (256, None))
        ),
        limit_bytes=8 * GIB,
        best_measured=Expected(config=BEST, sample_s=0.00052, spread=0.0),
        best_expected=None,
    )
