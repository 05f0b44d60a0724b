"""What the page says: pure text, compared with the records and with what the terminal says."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import pytest

from autotune.config import Config
from autotune.errors import RunFolderError
from autotune.numerics import not_checked
from autotune.records import Outcome
from autotune.report.evidence import gather
from autotune.report.html.page import page, write_page
from autotune.report.html.plots import tradeoff
from autotune.report.outcome import before_and_after, row_of, samples_per_s
from autotune.report.rows import rows_of_run
from autotune.search.verification import Verdict, Verification, sentence
from autotune.words.figures import memory
from tests.report.factory import failed, make_info, ok
from tests.report.html.conftest import BEST, SAME_BATCH
from tests.report.test_table import CLAIM


def text_of(run, explanation=None):
    """Return the page without styles, scripts and tags, as a reader sees it."""
    found = page(gather(run, explanation))
    found = re.sub(r"<(script|style)\b.*?</\1>", " ", found, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", found)))


def without_beliefs(text):
    """Return the text without the models' figures, which are marked as such."""
    return re.sub(r"believed [\d.]+x, not measured alone", "", text.partition("What the search believes")[0])


def figures_of(run, explanation=None):
    found = page(gather(run, explanation))
    block = re.search(r'<script type="application/json" id="figures">(.*?)</script>', found, re.DOTALL)
    return {figure["name"]: figure for figure in json.loads(block[1])}


def test_the_verdict_is_that_of_the_verification(verified):
    found = Verification.load(verified.folder.verification)
    text = text_of(verified)
    for claim in found.claims():
        main, _, rest = sentence(claim).partition(" (")
        assert main in text
        assert rest.removesuffix(")") in text
    assert "not verified" not in text


def test_nothing_else_is_claimed(verified, believed):
    text = text_of(verified, believed)
    for claim in Verification.load(verified.folder.verification).claims():
        text = text.replace(sentence(claim).partition(" (")[0], "")
    assert not CLAIM.search(without_beliefs(text))


def test_both_answers_stand_there_with_their_commands(verified):
    text = text_of(verified)
    best, same = text.index("Best config"), text.index("Best config with the baseline's batch size")
    assert best < same
    for path in (verified.folder.best, verified.folder.best_same_batch):
        assert f'tuned = autotune.Tuned(autotune.Config.load("{path}"))' in text
    assert text.count("mind the learning rate") == 2


def test_figures_are_those_of_the_terminal(save, mixed):
    run = save(mixed)
    rows = rows_of_run(run)
    text = text_of(run)
    before, after = row_of(rows, run.baseline), row_of(rows, BEST)
    assert f"{samples_per_s(before)} → {samples_per_s(after)}" in text
    assert f"{memory(after.peak_bytes)}" in text
    for title, one, other in before_and_after(before, after):
        assert f"{title} {one} {other}" in text


def test_unverified_makes_no_claim(save, mixed, believed):
    run = save(mixed)
    text = text_of(run, believed)
    assert f"autotune verify {run.folder.path}" in text
    assert not CLAIM.search(without_beliefs(text))
    assert "believed 1.4x, not measured alone" in text


def test_each_unverified_answer_says_what_proves_it(save, mixed):
    run = save(mixed)
    for path, size in ((run.folder.best, 128), (run.folder.best_same_batch, 64)):
        path.write_text(f'[options]\nbatch_size = {size}\nprecision = "bf16"\n[measured]\nstatus = "screening"\n')
    first, second = text_of(run).split("Best config with the baseline")
    assert f"autotune verify {run.folder.path} " in first
    assert f"autotune verify {run.folder.best_same_batch} " in second


def test_every_plot_is_there(verified, believed):
    names = list(figures_of(verified, believed))
    assert names == [
        "pairs-best",
        "pairs-same-batch",
        "tradeoff",
        "gains-best",
        "gains-same-batch",
        "step",
        "blocks",
        "memory",
        "progress-trials",
        "progress-time",
    ]


def test_pairs_are_the_windows_of_the_record(verified):
    claim = Verification.load(verified.folder.verification).best
    traces = {trace.get("name"): trace for trace in figures_of(verified)["pairs-best"]["traces"]}
    for arm, name in (("baseline", "baseline"), ("candidate", "best")):
        windows = [window for window in claim.windows if window.arm == arm]
        assert traces[name]["y"] == pytest.approx([1 / window.sample_s for window in windows])
        assert traces[name]["x"] == [window.round + 1 for window in windows]
    assert len(traces["ratio of the round"]["y"]) == claim.comparison.pairs


def test_the_trade_off_marks_who_is_who(verified):
    figure = figures_of(verified)["tradeoff"]
    traces = {trace.get("name"): trace for trace in figure["traces"]}
    rows = rows_of_run(verified)
    assert traces["best"]["y"] == pytest.approx([row_of(rows, BEST).samples_per_s])
    assert traces["best at the same batch"]["y"] == pytest.approx([row_of(rows, SAME_BATCH).samples_per_s])
    assert len(traces["over the limit"]["x"]) == 1
    assert len(traces["cut short"]["x"]) == 1
    assert "batch_size = 128<br>precision = bf16<br>num_workers = 4" in traces["best"]["hovertext"][0]
    assert figure["layout"]["shapes"][0]["x0"] == pytest.approx(8.0)  # GiB, the limit


def test_no_bar_reaches_below_nothing(verified):
    evidence = gather(verified)
    unsure = [replace(row, uncertainty=1.75) if row.measured else row for row in evidence.rows]
    (figure,) = tradeoff.draw(replace(evidence, rows=unsure))
    marks = [trace for trace in figure.traces if trace["mode"] == "markers"]
    assert marks
    for trace in marks:
        assert trace["error_y"]["arrayminus"] == pytest.approx(trace["y"])
        assert max(trace["error_y"]["array"]) > max(trace["y"])
    assert figure.layout["xaxis"]["rangemode"] == "nonnegative"


def test_progress_ends_at_the_first_in_rank(verified):
    traces = {trace["name"]: trace for trace in figures_of(verified)["progress-trials"]["traces"]}
    first = next(row for row in rows_of_run(verified) if row.rank == 1)
    best = traces["best so far"]["y"]
    assert best[-1] == pytest.approx(first.samples_per_s)
    assert best[0] == pytest.approx(1000)
    assert len(traces["no figure"]["x"]) == 2


def test_beliefs_are_marked_as_such(save, mixed, believed):
    figure = figures_of(save(mixed), believed)["gains-best"]
    (trace,) = figure["traces"]
    assert trace["name"] == "believed"
    assert trace["marker"]["symbol"].endswith("-open")


def test_a_value_that_names_modules_leaves_the_plot_its_room(save, mixed, believed):
    named = "all but encoder.*:Dropout2d decoder.*:Dropout2d head.*:Dropout2d neck.*:Dropout2d"
    run = save(mixed)
    run.folder.best.write_text(f'[options]\ninplace_activations = "{named}"\n[measured]\nstatus = "screening"\n')
    values = [replace(effect, option="inplace_activations") for effect in believed.effects]
    found = replace(believed, effects=(replace(values[0], value=named), replace(values[1], value="off")))
    (label,) = figures_of(run, found)["gains-best"]["traces"][0]["y"]
    assert label.startswith("inplace_activations = all")
    assert len(label.split("<br>")) == 3
    assert all(len(line) <= 26 for line in label.split("<br>"))


def test_blocks_of_windows_are_drawn_too(verified):
    traces = figures_of(verified)["blocks"]["traces"]
    drawn = sum(len(trace["x"]) for trace in traces)
    assert drawn == 12 * sum(
        len(gather(verified).records(config, verification=windows))
        for _, config in gather(verified).arms()
        for windows in (False, True)
    )


def test_parts_of_a_step_add_up(save, mixed):
    run = save(mixed)
    traces = figures_of(run)["step"]["traces"]
    for place, config in enumerate((run.baseline, BEST)):
        found = gather(run).measurements(config)
        total = sum(trace["x"][place] for trace in traces)
        assert total == pytest.approx(1e6 * sum(item.step_s / item.samples_per_step for item in found) / len(found))


def test_every_run_is_in_the_table(save, mixed):
    text = page(gather(save(mixed)))
    body = re.search(r'id="trials-table">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)[1]
    assert body.count("<tr") == 8
    assert "bad [/] index [0]" in body
    assert "[red]tried[/red]" in body


def test_what_was_not_measured(save, mixed):
    text = text_of(save(mixed, reasons={"pin_memory": "no accelerator"}))
    assert "Not measured: loss after training, validation, checkpoints." in text
    assert "No verification was made" in text
    assert "Trials without figures: 1 out of memory, 1 error." in text
    assert "16 of the 24 trials asked for were not made." in text
    assert "pin_memory : no accelerator" in text


def test_repeats_are_none_of_the_trials_asked_for(save, mixed):
    text = text_of(save([*mixed, ok(9, kind="repeat"), ok(10, kind="repeat")], trials=8))
    assert "8 of 8 asked for" in text
    assert "were not made" not in text
    text = text_of(save([*mixed, ok(9, kind="repeat")], trials=9))
    assert "1 of the 9 trials asked for were not made." in text


def test_flags_in_words(save, mixed):
    text = text_of(save(mixed))
    assert "cpu_contended 1 of 7 runs other programs used the cores during the window" in text


@pytest.mark.parametrize(
    "records",
    [
        [],
        [ok(0, kind="baseline")],
        [failed(0, kind_of) for kind_of in ({}, {"batch_size": 8})],
        [failed(0, outcome=Outcome.TIMEOUT, reason="timeout")],
        [ok(0, host=9 << 30), ok(1, {"batch_size": 128}, host=9 << 30)],
    ],
    ids=["none", "one", "all failed", "hung", "over the limit"],
)
def test_poor_runs_give_a_sensible_page(save, records):
    run = save(records)
    text = text_of(run)
    ranked = any(row.rank for row in rows_of_run(run))
    assert ("No config was measured within the limits" in text) is not ranked
    assert "What was not measured" in text


def test_an_unmeasured_best_is_no_crash(verified):
    """A verified winner without options that gave nothing may be a config that the search never tried."""
    verified.folder.best.write_text('[options]\nbatch_size = 64\nnum_workers = 1\n[measured]\nstatus = "x"\n')
    assert "num_workers" in text_of(verified)


def test_an_old_verification_is_not_taken_for_this_one(verified):
    verified.folder.best.write_text(
        '[options]\nbatch_size = 128\nprecision = "bf16"\n[measured]\nstatus = "screening"\n'
    )
    assert "Best found, not verified" in text_of(verified)


def test_words_of_another_version_are_the_same_verdict(verified):
    text = verified.folder.best.read_text()
    verified.folder.best.write_text(text.replace("faster per sample", "quicker"))
    assert gather(verified).answers[0].claim == Verification.load(verified.folder.verification).best


def test_an_inconclusive_verdict_claims_no_interval(verified):
    found = Verification.load(verified.folder.verification)
    claim = replace(found.best, verdict=Verdict.INCONCLUSIVE, reason="environment: 17 of 24 windows disturbed (x)")
    replace(found, best=claim).save(verified.folder.verification)
    text = verified.folder.best.read_text()
    verified.folder.best.write_text(text.replace('"faster"', '"inconclusive"'))
    assert "inconclusive: environment: 17 of 24 windows disturbed (x)" in text_of(verified)
    assert "nothing is proven" in text_of(verified)
    assert not [shape for shape in figures_of(verified)["pairs-best"]["layout"]["shapes"] if shape["type"] == "rect"]


@pytest.mark.parametrize("name", ["best", "verification"])
def test_damaged_files_are_named(verified, name):
    path = getattr(verified.folder, name)
    path.write_text("{[")
    with pytest.raises(RunFolderError, match=path.name):
        write_page(verified)


def test_what_was_checked_of_the_maths(save, mixed):
    checked = replace(failed(1000, dict(BEST)), kind="numerics", numerics=not_checked("a step draws other numbers"))
    assert "a step draws other numbers" in text_of(save([*mixed, checked]))


def test_a_baseline_that_nothing_beats(save):
    text = text_of(save([ok(0, kind="baseline"), ok(1, {"num_workers": 2}, sample_s=0.01)]))
    assert "Keep what you run today" in text
    assert "Nothing to change: the baseline is the best config found." in text


def test_a_winner_that_proves_slower_is_not_recommended(verified):
    """The search then hands out the baseline, with the claim of what it tried."""
    found = Verification.load(verified.folder.verification)
    slower = replace(found.best.comparison, speedup=0.8, lower=0.7, upper=0.9, verdict=Verdict.SLOWER)
    claim = replace(found.best, verdict=Verdict.SLOWER, looks=(slower,))
    replace(found, best=claim, same_batch=None).save(verified.folder.verification)
    status = f'[measured]\nstatus = "{sentence(claim)}"\nverdict = "slower"\nspeedup = 0.8\n'
    verified.folder.best.write_text(f"[options]\nbatch_size = 64\n{status}")
    verified.folder.best_same_batch.unlink()
    text = text_of(verified)
    assert "slower per sample than your baseline" in text
    assert "Keep what you run today: the search's best proved slower." in text


def test_a_baseline_that_stays_unproven_says_why_and_names_no_rivals_of_another(verified):
    found = Verification.load(verified.folder.verification)
    first = replace(found.choice.ranking[0], config=found.best.candidate)
    tied = replace(first, config={**found.best.candidate, "optimizer_impl": "foreach"}, tied=True)
    found = replace(found, same_batch=None, choice=replace(found.choice, ranking=(first, tied)))
    found.save(verified.folder.verification)
    verified.folder.best_same_batch.unlink()
    assert "Not told from it in the choice" in text_of(verified)
    claim = replace(found.best, verdict=Verdict.INCONCLUSIVE, reason="environment: 1 of 2 windows disturbed (x)")
    replace(found, best=claim).save(verified.folder.verification)
    status = f'[measured]\nstatus = "{sentence(claim)}"\nverdict = "inconclusive"\n'
    verified.folder.best.write_text(f"[options]\nbatch_size = 64\n{status}")
    text = text_of(verified)
    assert "Keep what you run today: what was verified beside it took no less time, as far as was measured." in text
    assert "Not told from it in the choice" not in text


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>$policy ${style}\x1b[31m"


def hostile(save):
    bad = {"batch_size": 8192}
    return save(
        [
            ok(0, kind="baseline"),
            ok(1, {"precision": "bf16"}, sample_s=0.0007, flags=(HOSTILE,)),
            failed(2, bad, Outcome.ERROR, HOSTILE, message=HOSTILE, traceback=f"File {HOSTILE}\n  {HOSTILE}"),
        ],
        source=make_info().source.__class__(script=f"/home/{HOSTILE}.py", arguments=(HOSTILE,)),
        facts={"device": "cpu", "device_name": HOSTILE, "model": HOSTILE, "parameters": 1, "batch_structure": HOSTILE},
        reasons={HOSTILE: HOSTILE},
        command=("autotune", HOSTILE),
    )


def test_text_of_users_is_never_markup(save):
    found = page(gather(hostile(save)))
    assert "<img" not in found
    assert found.count("<script") == 3
    assert found.count("</script") == 3
    assert "\x1b" not in found
    assert "$policy" in found  # text stays text, and is no place of the template


def test_the_file_is_small_and_loads_nothing(verified, believed):
    path = write_page(verified, believed)
    assert path == verified.folder.report
    assert path.stat().st_size < 5e6
    found = path.read_text()
    assert "default-src 'none'" in found
    assert not re.search(r"<link|<script[^>]*src=|@import|url\(", found.partition("<body>")[0])


def test_configs_count_as_the_same_with_and_without_defaults(save):
    run = save([ok(0, kind="baseline"), ok(1, {"precision": "bf16", "num_workers": 0}, sample_s=0.0007)])
    run.folder.best.write_text('[options]\nbatch_size = 64\nprecision = "bf16"\n')
    (answer,) = gather(run).answers
    assert gather(run).row(answer).trial == 1
    assert not answer.config.difference(Config(batch_size=64, precision="bf16", num_workers=0))


@pytest.mark.slow
def test_a_long_search_stays_small(save):
    """500 trials, and 100 windows of 120 blocks each."""
    records = [ok(number, {"batch_size": 8 * number + 8, "num_workers": number % 8}) for number in range(500)]
    window = ok(1000, kind="verification")
    many = replace(window.measurement, blocks=window.measurement.blocks * 10)
    records += [replace(window, number=number, measurement=many) for number in range(1000, 1100)]
    assert len(page(gather(save(records))).encode()) < 5e6
