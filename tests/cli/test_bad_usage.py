"""Mistakes on the command line and in the files it names: one clear message, exit status 2."""

from __future__ import annotations

import pytest

SOUND = """
workload = autotune.Workload(
    model=lambda: nn.Linear(4, 3), dataset=lambda: data(), loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
)
"""
NO_BASELINE = SOUND.replace(', baseline={"batch_size": 8}', "")


def refused(ended, *parts, status=2):
    ended.check_clear()
    assert ended.status == status
    for part in parts:
        assert part in ended.message
    return ended.message


@pytest.mark.parametrize("command", ["search", "options"])
def test_script_that_is_not_there(command, run):
    refused(run(command, "nowhere.py"), "no such script", "nowhere.py")


TOO_LONG = "x" * 300


@pytest.mark.parametrize(
    "command",
    [
        ("results", TOO_LONG),
        ("report", TOO_LONG),
        ("show", TOO_LONG, "0"),
        ("search", f"{TOO_LONG}.py"),
        ("search", "train.py", "--out", TOO_LONG),
        ("export", f"{TOO_LONG}.toml", "--to", "pytorch"),
    ],
    ids=lambda command: f"{command[0]}-{len(command)}",
)
def test_name_that_no_file_can_have(command, run, write):
    write(SOUND)
    refused(run(*command), TOO_LONG, "File name too long")


def test_script_that_is_a_folder(run, tmp_path):
    (tmp_path / "project").mkdir()
    refused(run("search", "project"), "project is a folder")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("notes.txt", b"x = 1", "does not end in .py"),
        ("train.ipynb", b"{}", "jupyter nbconvert --to script"),
        ("weights.py", b"\x80\x04\x95\xff\xfe", "not a Python script"),
        ("coded.py", b"# coding: no-such-code\n", "not a Python script"),
    ],
)
def test_script_that_is_not_python(name, content, says, run, tmp_path):
    (tmp_path / name).write_bytes(content)
    refused(run("search", name), name, says)


def test_script_with_a_syntax_error_shows_the_line(run, tmp_path):
    (tmp_path / "train.py").write_text("x = 1\ndef broken(:\n    pass\n")
    ended = run("search", "train.py")
    refused(ended, "train.py cannot be parsed: invalid syntax", status=1)
    assert 'train.py", line 2' in ended.traceback
    assert "def broken(:" in ended.traceback


def test_script_with_null_bytes(run, tmp_path):
    (tmp_path / "train.py").write_bytes(b"x = 1\n\x00\x00\n")
    refused(run("search", "train.py"), "cannot be parsed", status=1)


def test_c06_script_that_trains_on_import_is_not_run(run, write, tmp_path):
    script = write("""
        open("ran.txt", "a").write("once")
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            loss = model(torch.randn(2, 4)).sum()
            loss.backward()
            optimizer.step()
    """)
    line = script.read_text().splitlines().index("    loss.backward()") + 1
    for command in ("search", "options"):
        refused(run(command, script), f"line {line} trains", "loss.backward()", "__main__", status=1)
    assert not (tmp_path / "ran.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--fix", "batchsize=8"), ("unknown option: batchsize", "Did you mean batch_size?")),
        (("--fix", "xyz=8"), ("unknown option: xyz", "Options: batch_size")),
        (("--fix", "batch_size"), ("batch_size: not in the form batch_size=64",)),
        (("--fix", "batch_size=many"), ("batch_size=many: batch_size takes a whole number",)),
        (("--fix", "batch_size=0"), ("batch_size must be 1 or more",)),
        (("--fix", "batch_size=-8"), ("batch_size must be 1 or more",)),
        (("--fix", "batch_size=" + "9" * 5000), ("batch_size takes a whole number",)),
        (("--fix", "precision=int3"), ("precision takes fp32, bf16 or fp16",)),
        (("--fix", "persistent_workers=maybe"), ("persistent_workers takes true or false",)),
        (("--baseline", "num_workers=two"), ("num_workers takes a whole number",)),
        (("--baseline", "workers=2"), ("unknown option: workers", "Did you mean num_workers?")),
        (("--choices", "num_workers=0,x"), ("num_workers takes a whole number",)),
        (("--choices", "num_workers="), ("not in the form num_workers=0,2,4",)),
        (("--choices", "num_workers=,"), ("not in the form num_workers=0,2,4",)),
        (("--choices", "num_worker=0"), ("unknown option: num_worker",)),
        (("--exclude", "precison"), ("unknown option: precison", "Did you mean precision?")),
        (("--allow", "nonsense"), ("unknown option: nonsense",)),
        (("--allow", "precision"), ("precision needs no leave", "with leave alone: cache_dataset")),
        (("--fix", "precision=fp32", "--exclude", "precision"), ("precision", "--fix", "--exclude")),
        (("--memory-limit", "lots"), ("--memory-limit lots: not a size", "20GiB")),
        (("--memory-limit", "9" * 400), ("not a size",)),
        (("--host-memory-limit", "-3GiB"), ("not a size",)),
        (("--headroom", "200%"), ("--headroom 200%: not a share",)),
        (("--sampler", "best"), ("unknown sampler: best", "structured")),
        (("--objective", "speed"), ("unknown objective: speed", "throughput")),
        (("--verify", "maybe"), ("maybe", "full, quick, none")),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_wrong_option_or_value(arguments, parts, run, write):
    refused(run("search", write(SOUND), *arguments), *parts)


@pytest.mark.parametrize("arguments", [("--trials", "0"), ("--trials", "x"), ("--max-batch", "0"), ("--nonsense",)])
def test_wrong_flag_is_refused_by_the_parser(arguments, run, write):
    ended = run("search", write(SOUND), *arguments)
    assert ended.status == 2
    assert arguments[0] in ended.err
    assert "Traceback" not in ended.err


def test_no_baseline_batch_size_is_asked_for(run, write):
    refused(run("options", write(NO_BASELINE)), "no baseline batch size", "--baseline batch_size=64")


def test_baseline_batch_size_from_the_command_line_is_enough(run, write):
    ended = run("options", write(NO_BASELINE), "--baseline", "batch_size=16")
    assert ended.status == 0, ended.err
    assert "[16]" in ended.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--fix", "pin_memory=true"), ("pin_memory does not apply here", "no accelerator")),
        (("--choices", "channels_last=true,false"), ("channels_last does not apply here",)),
        (("--fix", "batch_size=65"), ("batch_size=65", "64 samples")),
        (("--choices", "batch_size=8,128"), ("batch_size=128", "64 samples")),
        (("--device", "cuda:7"), ("there is no device cuda:7 here",)),
        (("--device", "warp"), ("no such device: warp",)),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_what_does_not_apply_to_the_workload(arguments, parts, run, write):
    import torch

    if torch.cuda.device_count() > 7:
        pytest.skip("the device is there")
    refused(run("options", write(SOUND), *arguments), *parts)


def test_run_folder_where_a_file_is(run, write, tmp_path):
    (tmp_path / "taken").write_text("mine")
    refused(run("search", write(SOUND), "--out", "taken"), "cannot write to the run folder taken", "--out")
    refused(run("search", write(SOUND), "--out", "taken/below"), "cannot write to the run folder")
    assert (tmp_path / "taken").read_text() == "mine"


def test_run_folder_that_cannot_be_made(run, write):
    refused(run("search", write(SOUND), "--out", "/proc/autotune"), "cannot write to the run folder /proc/autotune")


def test_existing_run_folder_is_kept(run, write, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    message = refused(run("search", write(SOUND), "--out", "run"), "holds an earlier search")
    assert all(flag in message for flag in ("--resume", "--force", "--out"))
    assert (tmp_path / "run" / "run.json").read_text() == "{}"


def test_resume_without_a_run(run, write):
    refused(run("search", write(SOUND), "--out", "new", "--resume"), "no search to resume in new")


def test_resume_of_a_damaged_run(run, write, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"format": 1}')
    refused(run("search", write(SOUND), "--out", "run", "--resume"), "run.json is damaged", "--force")


@pytest.mark.parametrize("command", [("results", "plain"), ("results", "nowhere"), ("show", "plain", "1")])
def test_folder_that_is_no_run(command, run, tmp_path):
    (tmp_path / "plain").mkdir()
    refused(run(*command), f"no search in {command[1]}")


def test_results_where_nothing_was_ever_searched(run):
    refused(run("results"), "no run under results/")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[options", "is damaged"),
        ("x = 1", "no [options] table"),
        ("[options]\nbatch_size = 'x'", "batch_size takes a whole number"),
        ("[options]\nbatch = 8", "unknown option: batch"),
    ],
)
def test_damaged_config(content, says, run, tmp_path):
    (tmp_path / "best.toml").write_text(content)
    refused(run("verify", "best.toml"), "best.toml", says)


def test_config_that_names_no_script(run, tmp_path):
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = 8\n")
    refused(run("verify", "best.toml"), "names no script", "--script")


@pytest.mark.parametrize("table", ["workload = 3", "[workload]\nbaseline = 3", "[workload]\narguments = 3"])
def test_config_with_a_damaged_workload_table(table, run, tmp_path, write):
    write(SOUND)
    head, _, rest = table.partition("\n")
    text = (
        f"{head}\n{rest}\n[options]\nbatch_size = 8\n"
        if head != "workload = 3"
        else f"{head}\n[options]\nbatch_size = 8"
    )
    (tmp_path / "best.toml").write_text(text)
    refused(run("verify", "best.toml", "--script", "train.py"), "best.toml", "[workload]")


@pytest.mark.parametrize("call", [1, 3])
def test_study_that_cannot_be_written_any_more(call, run, write, monkeypatch):
    """The disk fills up in the middle of a search: at its first write, or later."""
    import optuna

    from autotune.search.ledger import Ledger

    describe, calls = Ledger.describe, []

    def fail(self, *arguments):
        calls.append(arguments)
        if len(calls) < call:
            return describe(self, *arguments)
        try:
            raise OSError("database or disk is full\n[SQL: INSERT]")
        except OSError as error:
            raise optuna.exceptions.StorageInternalError("An exception is raised during the commit.") from error

    monkeypatch.setattr(Ledger, "describe", fail)
    ended = run("search", write(SOUND), "--trial-budget", "1", "--verify", "none", "--trials", "4")
    refused(ended, "cannot be written: database or disk is full", "--resume")
    assert "SQL" not in ended.message


@pytest.mark.parametrize("command", ["search", "options", "inspect", "init", "doctor", "memory", "profile", "run"])
def test_an_option_of_the_scripts_goes_after_the_dashes(command, run):
    ended = run(command, "train.py", "--batch_size", "12")
    assert ended.status == 2
    assert "-- arguments" in ended.err
    assert "No such option: --batch_size" in ended.err


@pytest.mark.parametrize("storage", ["study.db", "foo://bar", "sqlite:///not/there/study.db"])
def test_a_storage_that_is_not_there_is_told_as_that(storage, run, write):
    ended = run("search", write(SOUND), "--trials", "2", "--storage", storage)
    refused(ended, f"cannot open the study at {storage}", "--storage takes the URL")
    assert "disk" not in ended.message
