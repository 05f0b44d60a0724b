"""Trials that fail, each in a process of its own: what is on record, and that the next trial runs."""

from __future__ import annotations

import os
import signal
import time

import pytest

from autotune.documents import read_record
from autotune.measure.memory import peak_rss, proportional_bytes
from autotune.records import Outcome
from tests.trials.trial_scripts import GIB, session_of, wait_until

OOM = Outcome.OUT_OF_MEMORY
MIB = 1 << 20

IN_WORKER = """
class Ours(Numbers):
    def load(self, index):
        if index % 50 == 7 and get_worker_info() is not None:
            {action}

def build_dataset():
    return Ours()
"""


def in_step(action: str, after: int = 0) -> str:
    return f"""
steps = 0
def before_step():
    global steps
    steps += 1
    if steps > {after}:
        {action}
"""


# ---- memory ----


@pytest.mark.parametrize(
    "allocation", ["torch.empty(10**9)", "bytearray(10**10)", "np.zeros(10**10)", "torch.empty(10**9).sum().backward()"]
)
def test_c01_the_host_has_no_more_memory(trial, allocation):
    limit = """
import resource
def limit():
    size = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + (600 << 20),) * 2)
"""
    record = trial(limit + in_step(f"limit(); {allocation}")).record
    assert (record.outcome, record.failure.reason) == (OOM, "out of host memory")
    assert record.failure.phase == "first step"
    assert allocation.split("(")[0] in record.failure.traceback


def test_a4_a6_memory_that_runs_out_in_a_later_backward(trial):
    body = """
class Greedy(torch.autograd.Function):
    calls = 0
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        Greedy.calls += 1
        if Greedy.calls > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
        return grad

def step(model, batch):
    return cross_entropy(Greedy.apply(model(batch[0])), batch[1])
"""
    record = trial(body).record
    assert (record.outcome, record.failure.reason) == (OOM, "out of device memory")
    assert record.failure.phase == "warm-up"


def test_c77_the_first_exception_is_shown(trial):
    body = """
def step(model, batch):
    try:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
    except RuntimeError:
        return model(batch[0], smaller=True)
"""
    found = trial(body).record.failure
    assert found.reason == "out of device memory"
    assert found.message.startswith("OutOfMemoryError: CUDA out of memory")
    assert "unexpected keyword argument 'smaller'" in found.traceback


def test_over_the_host_limit_the_watchdog_ends_the_trial(trial):
    hold = in_step("hold.append(np.ones(100 << 20, dtype=np.uint8)); time.sleep(0.05)", after=2)
    record = trial("hold = []" + hold, limits={"host_bytes": GIB}).record
    assert (record.outcome, record.failure.reason) == (OOM, "over the host memory limit")
    assert "1.00 GiB it may use" in record.failure.message


def test_what_workers_share_with_the_trial_counts_once(trial):
    """A dataset of 400 MB in memory and two workers are no 1.2 GB."""
    body = """
class Large(Numbers):
    def __init__(self):
        super().__init__()
        self.data = np.ones(400 << 20, dtype=np.uint8)

def build_dataset():
    return Large()
"""
    assert trial(body + in_step("time.sleep(0.001)"), config={"batch_size": 8, "num_workers": 2},
                 limits={"host_bytes": 1300 * MIB}).record.outcome is Outcome.OK  # fmt: skip


def test_c02_an_out_of_memory_trial_leaves_nothing_in_the_steering_process(trial):
    before = proportional_bytes(os.getpid())
    body = in_step("keep = torch.ones(200 << 20); raise MemoryError")
    for _ in range(2):
        assert trial(body).record.outcome is OOM
    assert proportional_bytes(os.getpid()) - before < 50 * MIB
    assert peak_rss() > 0


# ---- signals ----


@pytest.mark.parametrize(
    ("number", "outcome", "reason"),
    [
        (signal.SIGKILL, OOM, "out of host memory?"),
        (signal.SIGBUS, OOM, "out of shared memory"),
        (signal.SIGSEGV, Outcome.CRASHED, "killed by signal 11 (SIGSEGV)"),
        (signal.SIGABRT, Outcome.CRASHED, "killed by signal 6 (SIGABRT)"),
    ],
)
def test_c61_a17_the_trial_is_killed(trial, number, outcome, reason):
    record = trial(in_step(f"os.kill(os.getpid(), {int(number)})", after=3)).record
    assert (record.outcome, record.failure.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("number", "outcome", "reason"),
    [
        (signal.SIGKILL, OOM, "out of host memory"),
        (signal.SIGBUS, OOM, "out of shared memory"),
        (signal.SIGSEGV, Outcome.CRASHED, "a loader worker crashed"),
        (signal.SIGABRT, Outcome.CRASHED, "a loader worker crashed"),
    ],
)
def test_a17_c3_a_worker_is_killed(trial, number, outcome, reason):
    body = IN_WORKER.format(action=f"os.kill(os.getpid(), {int(number)})")
    record = trial(body, config={"batch_size": 8, "num_workers": 1}).record
    assert (record.outcome, record.failure.reason) == (outcome, reason)


def test_c04_a_worker_that_exits_by_itself(trial):
    found = trial(IN_WORKER.format(action="os._exit(3)"), config={"batch_size": 8, "num_workers": 2}).record
    assert (found.outcome, found.failure.reason) == (Outcome.ERROR, "a loader worker exited unexpectedly")
    assert "num_workers=0" in found.failure.message


def test_an_error_in_a_worker_is_the_users_with_their_line(trial):
    body = IN_WORKER.format(action='raise KeyError("no such sample")')
    record = trial(body, config={"batch_size": 8, "num_workers": 1}).record
    assert (record.outcome, record.failure.reason) == (Outcome.ERROR, "KeyError")
    assert 'raise KeyError("no such sample")' in record.failure.traceback


def test_the_trial_ends_itself_without_a_word(trial):
    record = trial(in_step("os._exit(3)")).record
    assert (record.outcome, record.failure.reason) == (Outcome.ERROR, "the process ended with status 3")


# ---- time ----


def test_c04_c2_a_worker_that_hangs_is_a_timeout_and_no_worker_is_an_answer(trial):
    body = IN_WORKER.format(action="time.sleep(100)")
    began = time.monotonic()
    hung = trial(body, config={"batch_size": 8, "num_workers": 2}, limits={"timeout_s": 4.0})
    assert time.monotonic() - began < 100
    assert (hung.record.outcome, hung.record.failure.reason) == (Outcome.TIMEOUT, "no end within 4 s")
    assert "num_workers=0" in hung.record.failure.message
    assert session_of(hung.pid) == []
    assert trial(body, limits={"timeout_s": 30.0}).record.outcome is Outcome.OK


def test_c47_workers_of_a_timed_out_trial_are_gone_before_the_next_begins(trial):
    """Pitfall 11: workers in a busy loop that they never leave, deaf to SIGTERM."""
    body = IN_WORKER.format(action="signal.signal(signal.SIGTERM, signal.SIG_IGN)\n            while True: pass")
    busy = trial(body, config={"batch_size": 8, "num_workers": 2}, limits={"timeout_s": 3.0})
    assert busy.record.outcome is Outcome.TIMEOUT
    assert wait_until(lambda: not session_of(busy.pid), 1.0)
    after = trial(in_step("raise ValueError"))
    assert after.record.started_at >= busy.record.started_at + busy.record.wall_s - 0.1


def test_a_trial_that_hangs_in_the_main_process(trial):
    hung = trial(in_step("time.sleep(100)"), limits={"timeout_s": 1.5})
    assert hung.record.outcome is Outcome.TIMEOUT
    assert "num_workers" not in hung.record.failure.message
    assert session_of(hung.pid) == []


def test_an_import_that_never_ends(trial):
    assert trial("time.sleep(100)", limits={"timeout_s": 1.5}).record.outcome is Outcome.TIMEOUT


# ---- the user's code ----


def test_an_error_has_the_users_traceback_alone(trial):
    record = trial(in_step('raise RuntimeError("shape mismatch ... memory format")', after=2)).record
    assert (record.outcome, record.failure.reason) == (Outcome.ERROR, "RuntimeError")
    assert record.failure.message == "RuntimeError: shape mismatch ... memory format"
    assert "script.py" in record.failure.traceback
    assert "autotune/" not in record.failure.traceback
    assert record.failure.phase == "warm-up"


def test_sys_exit_in_a_step_is_an_error(trial):
    record = trial(in_step("sys.exit(0)")).record
    assert (record.outcome, record.failure.reason) == (Outcome.ERROR, "SystemExit")


def test_a_question_to_nobody_is_an_error(trial):
    record = trial(in_step('input("go on? ")')).record
    assert (record.outcome, record.failure.reason) == (Outcome.ERROR, "input was asked for")
    assert "no terminal" in record.failure.message


def test_c17_a_loss_of_nan(trial):
    body = "def step(model, batch):\n    return model(batch[0]).sum() * float('nan')\n"
    record = trial(body).record
    assert (record.outcome, record.failure.reason) == (Outcome.NON_FINITE, "loss is not finite")


def test_b10_an_optimizer_that_holds_nothing_of_the_model(trial):
    body = (
        "other = nn.Linear(4, 3)\ndef build_optimizer(parameters):\n    return torch.optim.SGD(other.parameters(), 1)\n"
    )
    record = trial(body).record
    assert record.outcome is Outcome.ERROR
    assert "no parameter changed" in record.failure.message


def test_e4_a_gradient_is_missing(trial):
    record = trial(gradient_names=("bias", "weight", "first.weight")).record
    assert record.outcome is Outcome.ERROR
    assert "lose their gradient under this config: first.weight" in record.failure.message


def test_c51_b2_no_batch_at_all(trial):
    body = "def build_dataset():\n    return Numbers(10)\ndrop_last = True\n"
    record = trial(body, config={"batch_size": 16}, dataset_length=10).record
    assert record.outcome is Outcome.ERROR
    assert "0 steps" in record.failure.message
    assert "drop_last" in record.failure.message


def test_every_failure_is_on_disk_as_it_was_returned(trial, tmp_path):
    record = trial(in_step("os.kill(os.getpid(), 9)")).record
    assert read_record(tmp_path / "record.json") == record
    assert record.wall_s > 0
    assert record.limits.timeout_s == 60.0
