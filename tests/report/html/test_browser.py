"""The page in a real browser without a network: every plot drawn, nothing on the console, everything usable."""

from __future__ import annotations

import pytest

from tests.report.factory import failed, ok
from tests.report.html.browser import DESKTOP, PHONE
from tests.report.html.test_page import hostile

MARKS = """
    return [...document.querySelectorAll(".plot")].map((plot) => [
        plot.id,
        plot.querySelectorAll(".scatterlayer .points path, .scatterlayer .lines path, .barlayer .point path").length,
    ]);
"""
COLUMN = """
    const header = document.querySelector(`th[data-name="${arguments[0]}"]`);
    const rows = [...document.querySelectorAll("#trials-table tbody tr")].filter((row) => row.offsetParent);
    return rows.map((row) => row.cells[header.cellIndex].textContent);
"""


def test_every_plot_is_drawn(verified_page):
    page = verified_page
    assert page.complaints() == []
    assert page.requests() == []
    marks = dict(page.run(MARKS))
    assert len(marks) == 10
    assert all(count > 0 for count in marks.values()), marks
    assert page.run("return document.querySelectorAll('#plot-tradeoff .points path').length") == 5


def test_sorting(verified_page):
    page = verified_page

    def click(name):
        page.run(f"document.querySelector('th[data-name=\"{name}\"] button').click()")
        return page.run(COLUMN, name)

    shown = [float(text) for text in click("samples_per_s") if text]
    assert shown == sorted(shown, reverse=True)
    assert [float(text) for text in click("samples_per_s") if text] == sorted(shown)
    assert page.run(COLUMN, "samples_per_s")[-1] == ""  # those without a figure stay last
    trials = [int(text) for text in click("trial")]
    assert trials == sorted(trials)
    assert page.count("th[aria-sort]") == 1


def test_filtering(verified_page):
    page = verified_page
    page.run(
        "const field = document.getElementById('filter-text');"
        "field.value = 'bf16 NUM_workers'; field.dispatchEvent(new Event('input'));"
    )
    assert page.run(COLUMN, "trial") == ["3"]
    assert page.run("return document.getElementById('trials-count').textContent") == "1 of 8 shown"
    page.run(
        "document.getElementById('filter-text').value = '';"
        "const chosen = document.getElementById('filter-outcome');"
        "chosen.value = 'out of memory'; chosen.dispatchEvent(new Event('change'));"
    )
    assert page.run(COLUMN, "trial") == ["5"]


def test_what_matters_is_on_the_first_screen(verified_page):
    page = verified_page
    for selector in (".verdict", ".evidence", ".cards", "table.options", ".command"):
        bottom = page.run("return document.querySelector(arguments[0]).getBoundingClientRect().bottom", selector)
        assert bottom <= DESKTOP["height"], selector


def test_pointing_at_a_trial_shows_its_config(verified_page):
    page = verified_page
    page.run(
        "const plot = document.getElementById('plot-tradeoff');"
        "const at = plot.data.findIndex((trace) => trace.name === 'best');"
        "Plotly.Fx.hover(plot, [{ curveNumber: at, pointNumber: 0 }])"
    )
    told = page.run("return document.querySelector('#plot-tradeoff .hoverlayer').textContent")
    assert "precision = bf16" in told


def brightness(page, selector, what):
    """Return 0 (black) to 765 (white)."""
    told = page.run("return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, what)
    return sum(map(int, told[4:-1].split(",")))


def test_light_and_dark(saw, verified):
    page = saw(verified, dark=True)
    assert brightness(page, "body", "backgroundColor") < 150
    assert brightness(page, ".plot .xtick text", "fill") > 600
    page.run("document.getElementById('theme').click()")
    assert brightness(page, "body", "backgroundColor") > 700
    assert brightness(page, ".plot .xtick text", "fill") < 150
    assert page.complaints() == []


@pytest.mark.parametrize("screen", [PHONE, {**PHONE, "width": 320}], ids=["phone", "small phone"])
def test_the_page_never_scrolls_sideways(saw, verified, believed, screen):
    page = saw(verified, believed, screen=screen)
    width, seen = page.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert seen == screen["width"]
    assert width <= seen
    wide = page.run(
        "return [...document.querySelectorAll('.plot')].filter((plot) => plot.scrollWidth > plot.clientWidth).length"
    )
    assert wide == 0


def test_a_value_that_names_modules_is_read_whole_on_a_phone(saw, save, mixed):
    run = save(mixed)
    value = "all but encoder.*:Dropout2d decoder.*:Dropout2d head.*:Dropout2d"
    run.folder.best.write_text(f'[options]\nprecision = "bf16"\ninplace_activations = "{value}"\n')
    page = saw(run, screen=PHONE)
    right, seen = page.run(
        "return [document.querySelector('table.options').getBoundingClientRect().right, window.innerWidth]"
    )
    assert right <= seen


def test_hostile_names_stay_text(saw, save):
    page = saw(hostile(save))
    assert page.count("img") == 0
    assert "<img src=x onerror=alert(1)>" in page.run("return document.querySelector('h1').textContent")
    page.run("for (const unfolded of document.querySelectorAll('details')) unfolded.open = true")
    assert "</script>" in page.run("return document.querySelector('#trials-table pre').textContent")


@pytest.mark.parametrize(
    "records", [[], [ok(0, kind="baseline")], [failed(0), failed(1, {"batch_size": 8})]], ids=["none", "one", "failed"]
)
def test_poor_runs_open_too(saw, save, records):
    page = saw(save(records))
    assert page.count("section") >= 4
    assert all(count > 0 for _, count in page.run(MARKS))


def test_paper_is_white(saw, verified):
    page = saw(verified, dark=True)
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    assert page.run("return document.documentElement.dataset.theme") == "light"
    assert page.run("return document.querySelector('#plot-tradeoff .main-svg').getAttribute('width')") == "640"
    page.run("window.dispatchEvent(new Event('afterprint'))")
    assert page.run("return document.documentElement.dataset.theme") == "dark"
