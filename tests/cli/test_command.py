"""The command as people run it, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.steering import heed_signals

SOUND = """
workload = autotune.Workload(
    model=lambda: nn.Linear(4, 3), dataset=lambda: data(), loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
)
"""
COMMAND = Path(sys.executable).with_name("autotune")


def test_installed_command_and_module_are_the_same(process):
    if not COMMAND.exists():
        pytest.skip("autotune is not installed as a command")
    ended = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, timeout=60)
    assert ended.stdout == process("--version").out


def test_help_without_arguments(process):
    ended = process()
    assert "search" in ended.out + ended.err
    assert "Traceback" not in ended.err


def test_script_that_is_not_there(process):
    ended = process("search", "nowhere.py")
    ended.check_clear()
    assert ended.status == 2


def test_c07_arguments_after_the_dashes_reach_the_script(process, write, tmp_path):
    script = write(
        """
        import argparse, os, sys
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", required=True)
        parser.add_argument("--trials", type=int, default=0)  # a name of ours, too
        args = parser.parse_args()
        seen = args.data, args.trials, sys.argv[0], os.getcwd()
        if seen != ("here", 3, os.path.abspath("train.py"), WORKING_FOLDER):
            raise ValueError(seen)
    """.replace("WORKING_FOLDER", repr(str(tmp_path)))
    )
    script.write_text(script.read_text() + SOUND)
    ended = process("options", "train.py", "--", "--data", "here", "--trials", "3")
    assert ended.status == 0, ended.err
    ended = process("options", "train.py")
    ended.check_clear()
    assert ended.status == 1
    assert "-- --data" in ended.message


def test_script_in_another_folder_than_the_working_one(process, write, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "here").write_text("data")  # what a script opens by a relative name is found
    (tmp_path / "project" / "sibling.py").write_text("WIDTH = 3\n")
    script = write("from sibling import WIDTH\nassert open('here').read() == 'data'\n" + SOUND, "project/train.py")
    ended = process("options", script, cwd=tmp_path / "elsewhere")
    assert ended.status == 0, ended.err


@pytest.mark.parametrize("name", ["random.py", "torch.py"])
def test_script_in_the_working_folder_named_like_a_module(name, write, tmp_path):
    """`python -m autotune` would find it in the place of the module, as Python does; the command must not."""
    if not COMMAND.exists():
        pytest.skip("autotune is not installed as a command")
    write(SOUND, name)
    ended = subprocess.run([COMMAND, "options", name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "batch_size" in ended.stdout


def test_c26_output_of_the_script_stays_out_of_the_tools(process, write, tmp_path):
    script = write("""
        import sys
        print('{"phase": "window"}')
        print("a progress bar", file=sys.stderr)
        open("model.pth", "a").write("")
    """)
    script.write_text(script.read_text() + SOUND)
    (tmp_path / "model.pth").write_text("precious")
    ended = process("options", "train.py")
    assert ended.status == 0
    assert "phase" not in ended.out + ended.err
    assert "progress bar" not in ended.out + ended.err
    assert (tmp_path / "model.pth").read_text() == "precious"


def test_c30_one_core_allows_one_worker(process, write):
    write(SOUND)
    ended = process("options", "train.py", prefix=("taskset", "-c", str(min(os.sched_getaffinity(0)))))
    assert ended.status == 0, ended.err
    row = next(line for line in ended.out.splitlines() if line.startswith("num_workers"))
    assert "[0] 1 " in row
    assert " 2 " not in row
    assert "there is one core to use" in ended.out


def test_interrupted_pipe_of_the_reader_is_no_error(process, write, tmp_path):
    write(SOUND)
    text = f"{sys.executable} -m autotune options train.py | head -n 1"
    ended = subprocess.run(text, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in ended.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A file system of some hundred kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], capture_output=True)
    if not done or done.returncode:
        pytest.skip("no right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


@pytest.mark.parametrize(
    "free", [pytest.param(0, marks=pytest.mark.slow), pytest.param(40_000, marks=pytest.mark.slow), 120_000]
)
def test_full_disk_is_one_clear_message(free, process, write, small_disk):
    write(SOUND)
    (small_disk / "ballast").write_bytes(b"x" * (300 * 1024 - free - free % 4096))
    ended = process("search", "train.py", "--out", small_disk / "run", "--trials", "3", "--trial-budget", "1",
                    "--verify", "none")  # fmt: skip
    ended.check_clear()
    assert ended.status == 2
    assert str(small_disk) in ended.message
    assert "No space left" in ended.message or "full" in ended.message


@pytest.mark.slow
def test_search_from_start_to_config(process, write, tmp_path):
    write(SOUND.replace("data()", "data(2000)"))
    ended = process(
        "search", "train.py", "--trials", "4", "--trial-budget", "1", "--verify", "none", "--max-batch", "64", "--quick"
    )
    assert ended.status == 0, ended.err
    run = tmp_path / "results" / "train"
    assert "[options]" in (run / "best.toml").read_text()
    assert (run / "report.html").exists()
    info = json.loads((run / "run.json").read_text())
    assert max(info["choices"]["batch_size"]) == 64
    assert process("results", run).status == 0
    again = process("search", "train.py")
    again.check_clear()
    assert (again.status, "--resume" in again.message) == (2, True)


@pytest.mark.parametrize(
    ("command", "number"), [("options", signal.SIGTERM), ("inspect", signal.SIGHUP), ("init", signal.SIGTERM)]
)
def test_a_command_that_is_ended_leaves_no_folder(command, number, tmp_path):
    (tmp_path / "train.py").write_text("import time\ntime.sleep(60)\n")
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "autotune", command, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=heed_signals,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "tmp").glob("autotune-*/server.log")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    assert b"Traceback" not in process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert not list((tmp_path / "tmp").iterdir())
