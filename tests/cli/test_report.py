"""`autotune report`, and the page that every search leaves behind."""

from __future__ import annotations

import pytest

from tests.report.conftest import mixed_records, write_run


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "results" / "train", mixed_records()).folder


def test_the_newest_run_is_taken(run, folder):
    ended = run("report")
    assert ended.status == 0, ended.err
    assert ended.out.strip() == "results/train/report.html"
    assert folder.report.read_text().startswith("<!doctype html>")


def test_it_can_go_elsewhere(run, folder, tmp_path):
    assert run("report", folder.path, "--out", "shown.html").status == 0
    assert (tmp_path / "shown.html").exists()
    assert not folder.report.exists()


def test_no_file_is_replaced_unasked(run, folder, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    ended = run("report", folder.path, "--out", "train.py")
    ended.check_clear()
    assert (ended.status, ended.message.split("\n")[0]) == (2, "train.py exists")
    assert script.read_text() == "x = 1\n"
    assert run("report", folder.path, "--out", "train.py", "--force").status == 0
    assert script.read_text().startswith("<!doctype html>")
    for _ in range(2):  # the run's own page is made again
        assert run("report", folder.path).status == 0


def test_open_hands_it_to_the_browser(run, folder, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    run("report", folder.path, "--open")
    assert opened == [folder.report.resolve().as_uri()]


def test_no_run_and_no_place_are_one_clear_message(run, folder, tmp_path):
    places = (tmp_path / "no" / "page.html", ".", "/")
    for arguments in (["nowhere"], *([folder.path, "--out", place] for place in places)):
        ended = run("report", *arguments)
        ended.check_clear()
        assert ended.status == 2


def test_a_damaged_run_is_one_clear_message(run, folder):
    folder.run.write_text(folder.run.read_text().replace('"load": 0.1, ', ""))
    ended = run("report", folder.path)
    ended.check_clear()
    assert "damaged results/train/run.json" in ended.message.replace(f"{folder.path.parent.parent}/", "")


def test_a_search_that_fails_leaves_its_page(run, write, tmp_path):
    write("""
    calls = []

    def breaks(model, batch):
        calls.append(1)
        if len(calls) > 3:  # later than in the look at the workload that comes before the trials
            raise ValueError("</script> no")
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    workload = autotune.Workload(
        model=lambda: nn.Linear(4, 3), dataset=lambda: data(), training_step=breaks, baseline={"batch_size": 8}
    )
    """)
    ended = run("search", "train.py", "--trials", "2", "--trial-budget", "1")
    assert ended.status == 1
    assert "report   results/train/report.html" in ended.out
    page = (tmp_path / "results" / "train" / "report.html").read_text()
    assert "No config was measured within the limits: 1 error." in page
    assert "&lt;/script&gt; no" in page
