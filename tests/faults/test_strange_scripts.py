"""Scripts that do to their process what scripts do: each is trained as it is, or refused in one clear message."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from autotune.records import Outcome
from tests.cli.conftest import Ended
from tests.sampling import some
from tests.trials.trial_scripts import Trial, session_of, wait_until

Run = Callable[..., Ended]
Write = Callable[..., Path]

WORKLOAD = """
workload = autotune.Workload(
    model=build_model, dataset=build_dataset, loss=loss, collate_fn=collate, baseline={"batch_size": 8}
)
"""
PARTS = """\
import os, pickle, signal, sys, threading, time
import numpy as np

steps = 0

class Net(nn.Linear):
    def forward(self, x):
        global steps
        steps += 1
        if steps > 40:
            later()
        return super().forward(x)

def build_model():
    return Net(4, 3)

def build_dataset():
    return data(512)

def later():
    pass

loss, collate = nn.CrossEntropyLoss(), None
"""


@dataclass
class Strange:
    """A script, and what is said of it."""

    name: str
    text: str
    says: tuple[str, ...]
    line: str = ""
    """of the user's traceback: where their code failed"""

    def __str__(self) -> str:
        return self.name


def later(action: str) -> str:
    """Do it in a step of the trial, when the probe is long over."""
    return f"def later():\n    {action}\n"


STRANGE = [
    Strange(
        "base exception on import",
        "class Stop(BaseException):\n    pass\nraise Stop('enough')",
        ("train.py failed when it was imported: Stop: enough",),
        "raise Stop('enough')",
    ),
    Strange(
        "base exception in a step",
        "class Stop(BaseException):\n    pass\n" + later("raise Stop('enough')"),
        ("the baseline does not run: Stop: enough",),
        "raise Stop('enough')",
    ),
    Strange(
        "keyboard interrupt of its own",
        later("raise KeyboardInterrupt"),
        ("the baseline does not run: KeyboardInterrupt",),
        "raise KeyboardInterrupt",
    ),
    Strange(
        "error that cannot say what it is",
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n" + later("raise Mute"),
        ("the baseline does not run: Mute: (its text cannot be had: ValueError)",),
        "raise Mute",
    ),
    Strange(
        "error of half characters",
        later("raise ValueError('\\udcff\\ud800 \\x1b[31m\\x00 done')"),
        ("the baseline does not run: ValueError: ", " done"),
        "raise ValueError",
    ),
    Strange(
        "error of fifty megabytes",
        later("raise ValueError('x' * 50_000_000)"),
        ("the baseline does not run: ValueError: xxx",),
    ),
    Strange(
        "group of errors",
        later("raise ExceptionGroup('both', [KeyError('a'), KeyError('b')])"),
        ("the baseline does not run: ExceptionGroup: both (2 sub-exceptions)",),
    ),
    Strange(
        "hooks that swallow errors",
        "sys.excepthook = sys.unraisablehook = threading.excepthook = lambda *rest: os._exit(0)\n" + later("1 / 0"),
        ("the baseline does not run: ZeroDivisionError",),
        "1 / 0",
    ),
    Strange("ends in the middle as if all were well", later("os._exit(0)"), ("ended without a record", "status 0")),
    Strange("alarm that nobody answers", later("os.kill(os.getpid(), signal.SIGALRM)"), ("signal 14 (SIGALRM)",)),
    Strange("loss that is a count", "def loss(output, target):\n    return (output.argmax(1) == target).sum()",
            ("the loss is int64[]", "only a floating-point number has a gradient")),
    Strange("loss that is complex", "def loss(output, target):\n    return output.sum().to(torch.complex64)",
            ("the loss is complex64[]", "only a floating-point number has a gradient")),
    Strange("gradients switched off", "torch.set_grad_enabled(False)", ("does not depend on", "no_grad")),
    Strange(
        "odd sample in the middle of the epoch",
        "def build_dataset():\n    return [(torch.randn(5 if i == 57 else 4), i % 3) for i in range(512)]",
        ("equal size",),
    ),
    Strange(
        "length that is less than nothing",
        "class Short(Dataset):\n    def __len__(self):\n        return -1\n"
        "def build_dataset():\n    return Short()",
        ("the dataset does not tell its length: ValueError: __len__() should return >= 0",),
    ),
    Strange(
        "length that is a lie",
        "class Lie(Dataset):\n    def __len__(self):\n        return 5000\n    def __getitem__(self, index):\n"
        "        return [(torch.zeros(4), 0)][index]\ndef build_dataset():\n    return Lie()",
        ("the first batch cannot be loaded: IndexError",),
    ),
    Strange(
        "c73 weights only",
        "with open('values.pkl', 'wb') as file:\n    pickle.dump(np.ones(3), file)\n"
        "def build_dataset():\n    return torch.load('values.pkl')",
        ("train.py cannot be trained: UnpicklingError",),
        "return torch.load('values.pkl')",
    ),
    Strange(
        "c70 default device",
        "torch.set_default_device('meta')",
        ("train.py cannot be trained: the model is on the meta device",),
    ),
]  # fmt: skip


@pytest.mark.parametrize("strange", some(STRANGE), ids=str)
def test_strange_script(strange: Strange, write: Write, run: Run, tmp_path: Path) -> None:
    script = write(PARTS + strange.text + WORKLOAD)
    ended = run("search", script, "--out", "run", "--trials", 1, "--trial-budget", 1, "--verify", "none", "--no-lock")
    ended.check_clear()
    assert ended.status == 1
    for part in strange.says:
        assert part in ended.message
    assert strange.line in ended.traceback
    assert len(ended.err) < 50_000
    assert not list((tmp_path / "run").glob("best*"))


SURVIVED = {
    "closes its output": "os.close(1)\nos.close(2)\n",
    "closes all files there are": "os.closerange(3, 1000)\n",
    "changes the working folder": "os.chdir('/')\n",
    "leaves a working folder that is gone": "os.mkdir('x'); os.chdir('x'); os.rmdir('../x')\n",
    "clears the environment": "os.environ.clear()\n",
    "prints what is no text": "sys.stdout.buffer.write(b'\\xff\\xfe\\x80' * 1000)\n",
    "takes every signal and an alarm that rings on": """
for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, lambda *rest: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
""",
    "starts a thread that dies in each step": """
def before_step():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
""",
    "leaves a thread that never ends": "threading.Thread(target=time.sleep, args=(3600,)).start()\n",
    "leaves a process behind": "if os.fork() == 0:\n    time.sleep(3600)\n    os._exit(0)\n",
    "forks a process that goes on as the trial": """
made = []
def before_step():
    if not made:
        made.append(os.fork())
""",
}


@pytest.mark.parametrize("name", some(SURVIVED))
def test_what_a_script_does_to_its_process_ends_with_it(name: str, trial: Trial, tmp_path: Path) -> None:
    ran = trial(SURVIVED[name], limits={"timeout_s": 100.0, "budget_s": 1.0})
    assert ran.record.outcome is Outcome.OK, ran.record.failure
    assert wait_until(lambda: not session_of(ran.pid), 60.0)


def test_a_script_deaf_to_every_signal_is_ended_all_the_same(trial: Trial) -> None:
    deaf = SURVIVED["takes every signal and an alarm that rings on"] + "time.sleep(3600)\n"
    ran = trial(deaf, limits={"timeout_s": 1.5})
    assert ran.record.outcome is Outcome.TIMEOUT
    assert session_of(ran.pid) == []


@pytest.mark.parametrize("end", ["", "    raise ValueError\n", "    os.kill(os.getpid(), signal.SIGKILL)\n"])
def test_a_process_that_leaves_the_trials_session_is_ended_with_it(trial: Trial, tmp_path: Path, end: str) -> None:
    """As programs do that become daemons: two forks, and a session of their own."""
    body = """
made = []
def before_step():
    if made:
        return
    made.append(1)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            (HERE / "daemon").write_text(str(os.getpid()))
            time.sleep(3600)
        os._exit(0)
    while not (HERE / "daemon").exists() or not (HERE / "daemon").read_text():
        time.sleep(0.01)
"""
    trial(body + end)
    daemon = int((tmp_path / "daemon").read_text())
    assert wait_until(lambda: not psutil.pid_exists(daemon), 60.0)


def test_an_error_in_a_worker_is_told_by_its_own_words(trial: Trial) -> None:
    body = """
class Odd(Numbers):
    def __getitem__(self, index):
        return torch.zeros(5 if index % 57 == 56 else 4), 1
def build_dataset():
    return Odd()
"""
    failure = trial(body, config={"batch_size": 8, "num_workers": 1}).record.failure
    assert failure is not None
    assert "Caught" not in failure.message
    assert failure.message.startswith("RuntimeError: ")
    assert "DataLoader worker process 0" in failure.traceback


CANNOT_SEND = {
    "no room": ("raise_no_room()", Outcome.OUT_OF_MEMORY, "out of shared memory"),
    "no pickle": ("lambda: 0", Outcome.ERROR, "a loader worker exited unexpectedly"),
}


@pytest.mark.parametrize("how", ["fork", "spawn"])
@pytest.mark.parametrize("name", CANNOT_SEND)
def test_c3_c04_a_worker_that_cannot_send_its_batch_does_not_hang_the_trial(trial: Trial, name: str, how: str) -> None:
    """Its queue's thread would print the error, and the trial wait for the batch until its time is up."""
    what, outcome, reason = CANNOT_SEND[name]
    ran = trial(
        f"""
class Unsendable:
    def __reduce__(self):
        raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1_2>: No space left on device (28)")
raise_no_room = Unsendable
def collate(items):
    return torch.zeros(len(items), 4), {what} if get_worker_info() is not None else 0
def step(model, batch):
    return model(batch[0]).sum()
from functools import partial
Workload = partial(Workload, collate_fn=collate)
""",
        config={"batch_size": 8, "num_workers": 1, "multiprocessing_context": how},
        limits={"timeout_s": 100.0},
    )
    assert ran.record.failure is not None
    assert (ran.record.outcome, ran.record.failure.reason) == (outcome, reason)


def test_memory_that_runs_out_in_a_group_of_errors_is_memory(trial: Trial) -> None:
    body = "def before_step():\n    raise ExceptionGroup('both', [ValueError('a'), MemoryError()])\n"
    assert trial(body).record.outcome is Outcome.OUT_OF_MEMORY


def test_a_script_that_is_changed_meanwhile_is_said(write: Write, run: Run, tmp_path: Path) -> None:
    """Here by itself, when it is imported for a second trial."""
    changes = (
        "if os.path.exists(os.path.dirname(__file__) + '/run/trials/0000.json'):\n    open(__file__, 'a').write('#')\n"
    )
    script = write(PARTS + changes + WORKLOAD)
    before = hashlib.sha256(script.read_bytes()).hexdigest()
    ended = run("search", script, "--out", "run", "--trials", 2, "--trial-budget", 1, "--verify", "none", "--no-lock")
    assert ended.status == 0, ended.err
    assert "was changed while the search ran" in " ".join((ended.out + ended.err).split())
    best = (tmp_path / "run/best.toml").read_text()
    assert "was changed while the search ran" in best
    assert before in best


def test_a_script_that_is_gone_is_one_message(write: Write, run: Run, tmp_path: Path) -> None:
    """Results are no less for it."""
    script = write(PARTS + "os.unlink(__file__)\n" + WORKLOAD)
    ended = run("search", script, "--out", "run", "--trials", 2, "--no-lock")
    ended.check_clear()
    assert "train.py is not there any more" in ended.message
    assert (tmp_path / "run/trials/0000.json").exists()


def test_a_script_that_ends_the_fork_server_is_said(write: Write, process: Any) -> None:
    ended = process("search", write("import os, time\nos.kill(os.getppid(), 15)\ntime.sleep(60)"), "--out", "run")
    ended.check_clear()
    assert ended.status == 1
    assert "the fork server ended" in ended.message


def test_a_script_whose_name_is_no_text(write: Write, run: Run, tmp_path: Path) -> None:
    """File names are bytes: messages must show it, and files must hold it."""
    script = write(PARTS + "1 / 0" + WORKLOAD).rename(os.fsdecode(os.fsencode(tmp_path) + b"/tr\xffin.py"))
    ended = run("search", script, "--out", "run", "--no-lock")
    ended.check_clear()
    assert ended.status == 1
    assert "ZeroDivisionError" in ended.message


def test_what_a_terminal_cannot_show_is_no_error(write: Write, process: Any) -> None:
    script = write("raise ValueError('größer \\U0001f600 \\udcff')")
    ended = process("search", script, "--out", "run", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    ended.check_clear()
    assert ended.status == 1
    assert "ValueError: gr" in ended.message
