"""Reading a run folder, and saying what is wrong with one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autotune.config import Config
from autotune.errors import RunFolderError
from autotune.report.run import machine_line, read_run
from autotune.trials.folder import RunFolder
from tests.report.factory import make_info, ok


def test_a_run_is_read_whole(save, mixed):
    run = save(mixed)
    assert [record.number for record in run.records] == list(range(9))
    assert [record.number for record in run.screening] == list(range(8))
    assert run.baseline == Config(batch_size=64)
    assert run.accelerator is False
    assert run.record(3).number == 3


def test_a_trial_that_is_not_there(save):
    run = save([ok(0), ok(1)])
    with pytest.raises(RunFolderError, match="has no trial 7") as raised:
        run.record(7)
    assert raised.value.hint == "Its trials: 0 to 1."


def test_a_folder_without_a_search(tmp_path):
    with pytest.raises(RunFolderError, match="no search in"):
        read_run(RunFolder(tmp_path))


def test_a_damaged_folder_names_the_file(save):
    run = save([ok(0)])
    run.folder.run.write_text("{")
    with pytest.raises(RunFolderError, match=r"damaged .*run\.json"):
        read_run(run.folder)


def test_machine_line_names_the_card_and_its_driver():
    gpu = {"name": "A card", "driver": "570.1"}
    info = make_info(
        facts={"device": "cuda:0", "device_name": "A card"},
        machine={"cpu": "A CPU", "usable_cores": 7.5, "gpus": [gpu, gpu], "versions": {"torch": "2.13.0"}},
    )
    assert machine_line(info) == "A card (driver 570.1), 7.5 usable cores, torch 2.13.0, 2027-01-15 08:00 UTC"


def test_reports_need_neither_torch_nor_optuna():
    modules = "run rows table export trial options summary view live plain_view flags"
    code = (
        f"import sys, importlib\nfor name in {modules.split()!r}: importlib.import_module('autotune.report.' + name)\n"
        # what a verification says is read there; what searches is not
        "assert not {'torch', 'optuna', 'autotune.search.run', 'autotune.search.samplers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
