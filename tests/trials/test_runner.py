"""The fork server and the trials it starts: survival of both, and nothing left behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from autotune.documents import read_record
from autotune.errors import AutotuneError
from autotune.records import Outcome
from autotune.trials.runner import ForkServerRunner, silent
from autotune.trials.watchdog import MAX_LOG_BYTES
from tests.trials.trial_scripts import HEAD, TAIL, make_spec, session_of, wait_until

FAIL_AT_ONCE = "def before_step():\n    raise ValueError('at once')\n"
ENDLESS = "def before_step():\n    time.sleep(0.01)\n    (HERE / 'steps').open('a').write('x')\n"
ENDLESS_WORKERS = {"batch_size": 8, "num_workers": 2}
PARTS = (
    "import_s", "build_s", "first_batch_s", "first_step_s", "warmup_s", "drain_s",
    "window_s", "cached_s", "memory_s", "epoch_s",
)  # fmt: skip


@pytest.fixture(scope="module")
def own_runner(tmp_path_factory):
    """A runner whose server tests may kill."""
    runner = ForkServerRunner(tmp_path_factory.mktemp("own") / "server.log")
    yield runner
    runner.close()


def server_of(runner) -> int:
    return runner._server.pid


# ---- a trial that works ----


def test_a_trial_leaves_a_whole_record(trial, tmp_path):
    before = time.time()
    ran = trial(seed=3, number=7, kind="replicate")
    record = ran.record
    assert record.outcome is Outcome.OK
    assert record == read_record(tmp_path / "record.json")
    assert (record.number, record.kind, record.seed, record.config) == (7, "replicate", 3, {"batch_size": 8})
    assert record.gradient_names == ("bias", "weight")
    assert record.failure is None
    assert before <= record.started_at <= time.time()
    assert "torch" in record.versions
    found = record.measurement
    assert found.blocks
    assert all(loss > 0 for loss in found.losses)
    assert found.updates >= 3
    assert 0 < found.steady.host <= found.lifetime.host
    assert found.steady.tree_pss > 0
    assert found.samples_per_epoch == 4096


def test_every_part_of_a_trial_is_in_a_phase(trial):
    """Half a second of sleep in some of them shows where its time is counted."""
    body = """
time.sleep(0.5)
def build_model():
    time.sleep(0.5)
    return nn.Linear(4, 3)
steps = 0
def before_step():
    global steps
    steps += 1
    time.sleep(0.5 if steps == 1 else 0.0)
"""
    record = trial(body, config={"batch_size": 8, "num_workers": 1}).record
    assert record.outcome is Outcome.OK
    phases = record.phases
    assert min(phases.import_s, phases.build_s, phases.first_step_s) >= 0.5
    inside = sum(getattr(phases, part) for part in PARTS)
    assert inside <= phases.total_s <= record.wall_s
    assert record.wall_s - inside < 10  # a third of a second where nobody else computes


def test_progress_is_told_phase_by_phase(trial):
    ran = trial("def before_step():\n    time.sleep(0.002)\n")
    phases = list(dict.fromkeys(message["phase"] for message in ran.messages))
    assert phases == [
        "import", "build", "first step", "warm-up", "window", "memory", "cached compute", "epoch restart"
    ]  # fmt: skip
    assert all({"block", "sample_s"} <= set(message) for message in ran.messages if message["phase"] == "window")


def test_c79_each_trial_sees_the_same_random_numbers(trial):
    body = """
import random
def before_step():
    print("drawn", random.random(), np.random.rand(), torch.rand(1).item(), flush=True)
    raise ValueError
"""
    first, second, other = (trial(body, seed=seed).printed for seed in (1, 1, 2))
    assert first == second != other


def test_c26_the_script_may_print_what_looks_like_a_record(trial):
    body = 'print(\'{"pid": 1, "status": 0}\')\nprint(\'{"phase": 1}\')\n' + FAIL_AT_ONCE
    ran = trial(body)
    assert ran.record.failure.reason == "ValueError"
    assert '{"pid": 1, "status": 0}' in ran.printed


def test_garbage_in_the_progress_pipe_is_passed_over(trial):
    body = """
for name in os.listdir("/proc/self/fd"):
    try:
        if os.readlink(f"/proc/self/fd/{name}").startswith("pipe:"):
            for junk in (b"\\xff\\xfe{\\n", b"[" * 40000 + b"\\n", b"[1]\\n", b'{"figures": 1}\\n', b"x" * 20000):
                os.set_blocking(int(name), True)
                os.write(int(name), junk)
                os.set_blocking(int(name), False)
    except OSError:
        pass
"""
    ran = trial(body)
    assert ran.record.outcome is Outcome.OK
    assert {"warm-up", "window"} <= {message["phase"] for message in ran.messages}
    assert all("phase" in message for message in ran.messages)


def test_i4_megabytes_of_output_neither_block_nor_fill_the_disk(trial):
    body = """
def before_step():
    for _ in range(50):
        print("x" * 1_000_000)
    print("the last word", flush=True)
    raise ValueError("after much talk")
print("the first word")
"""
    ran = trial(body)
    assert ran.record.failure.reason == "ValueError"
    assert ran.log.stat().st_size <= MAX_LOG_BYTES + (1 << 20)
    assert ran.printed.startswith("the first word")
    assert ran.printed.rstrip().endswith("the last word")


def test_c24_a_trial_may_open_as_many_files_as_the_hard_limit_says(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))
    runner = ForkServerRunner(tmp_path / "server.log")
    body = """
import resource
(HERE / "limit").write_text(str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
kept = []
def collate(items):
    return {f"x{i}": torch.zeros(len(items)) for i in range(10)} | {"y": torch.zeros(len(items), 4)}
def step(model, batch):
    kept.append(batch)
    if len(kept) == 40:
        raise ValueError("enough")
    return model(batch["y"]).sum() * 1e-6
"""
    tail = TAIL.replace("drop_last=drop_last", "collate_fn=collate")
    spec = make_spec(tmp_path, body, config=ENDLESS_WORKERS)
    (tmp_path / "script.py").write_text(HEAD + body + tail)
    try:
        record = runner.run(spec, tmp_path / "log")
    finally:
        runner.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert record.failure.message == "ValueError: enough"
    assert int((tmp_path / "limit").read_text()) > 128


def test_c44_the_steering_process_has_used_its_threads(trial):
    import torch

    torch.set_num_threads(2)
    torch.rand(800, 800, requires_grad=True).matmul(torch.rand(800, 800)).sum().backward()
    body = "def before_step():\n    torch.rand(600, 600) @ torch.rand(600, 600)\n"
    assert trial(body, config=ENDLESS_WORKERS, limits={"timeout_s": 40.0}).record.outcome is Outcome.OK


@pytest.mark.slow
def test_c58_the_peak_of_the_steering_process_is_not_the_trials(tmp_path):
    import numpy as np

    large = np.ones(1 << 30, dtype=np.uint8)
    runner = ForkServerRunner(tmp_path / "server.log")
    try:
        record = runner.run(make_spec(tmp_path, ""), tmp_path / "log")
    finally:
        runner.close()
    assert large[-1] == 1
    assert record.measurement.lifetime.host < 800 << 20


def test_a_step_on_fresh_optimizer_state_is_inside_the_steady_peak(trial):
    """Pitfall 8: Adam keeps two copies of the parameters, from its first update on.

    The weight has over 32 MiB: malloc gives nothing smaller back at once, and its leftovers are as large as the effect.
    """
    peaks = {}
    for name in ("SGD", "Adam"):
        body = f"""
def build_model():
    return nn.Sequential(nn.Linear(4, 3000, bias=False), nn.Linear(3000, 3000, bias=False), nn.Linear(3000, 3))
def build_optimizer(parameters):
    return torch.optim.{name}(parameters, lr=1e-6)
"""
        record = trial(body, target=2.0).record
        assert record.outcome is Outcome.OK
        peaks[name] = record.measurement.steady.host
    assert peaks["Adam"] - peaks["SGD"] > 1.3 * 3000 * 3000 * 4


@pytest.mark.parametrize("kind", ["dicts", pytest.param("array", marks=pytest.mark.slow)])
def test_c23_copies_of_a_list_in_workers_are_seen_to_grow(trial, kind):
    body = f"""
class Listed(Numbers):
    def __init__(self):
        super().__init__(1_000_000)
        self.items = [{{"label": i % 3}} for i in range(1_000_000)] if "{kind}" == "dicts" else np.arange(1_000_000) % 3
    def __getitem__(self, index):
        item = self.items[index]
        return torch.zeros(4), int(item["label"] if "{kind}" == "dicts" else item)

def build_dataset():
    return Listed()
"""
    record = trial(body, config={"batch_size": 64, "num_workers": 2}, dataset_length=1_000_000, target=0.01).record
    assert record.outcome is Outcome.OK
    assert ("host_memory_growing" in record.measurement.flags) == (kind == "dicts")


def test_c23_workers_that_copy_nothing_are_not_seen_to_grow(trial):
    record = trial(config=ENDLESS_WORKERS).record
    assert record.outcome is Outcome.OK
    assert "host_memory_growing" not in record.measurement.flags


# ---- the server ----


def test_a_server_killed_between_trials_is_started_again(own_runner, tmp_path):
    spec = make_spec(tmp_path, FAIL_AT_ONCE)
    own_runner.run(spec, tmp_path / "log")
    os.kill(server_of(own_runner), signal.SIGKILL)
    record = own_runner.run(spec, tmp_path / "log")
    if record.failure.reason == "the fork server ended":  # it was still dying
        record = own_runner.run(spec, tmp_path / "log")
    assert record.failure.reason == "ValueError"


def test_a_server_killed_during_a_trial_takes_the_trial_along(own_runner, tmp_path):
    spec = make_spec(tmp_path, ENDLESS, config=ENDLESS_WORKERS)

    def kill_it(message):
        if message["phase"] == "warm-up":
            os.kill(server_of(own_runner), signal.SIGKILL)

    record = own_runner.run(spec, tmp_path / "log", kill_it)
    assert (record.outcome, record.failure.reason) == (Outcome.CRASHED, "the fork server ended")
    pid = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not session_of(pid), 2.0)
    assert own_runner.run(make_spec(tmp_path, FAIL_AT_ONCE), tmp_path / "log").failure.reason == "ValueError"


def test_a_server_that_does_not_come_up_shows_what_it_said(own_runner, tmp_path, monkeypatch):
    broken = tmp_path / "torch"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('libcuda.so.1: wrong ELF class')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own_runner.close()
    with pytest.raises(AutotuneError, match="did not come up") as caught:
        own_runner.run(make_spec(tmp_path, ""), tmp_path / "log")
    assert "wrong ELF class" in caught.value.hint
    monkeypatch.delenv("PYTHONPATH")
    assert own_runner.run(make_spec(tmp_path, FAIL_AT_ONCE), tmp_path / "log").failure.reason == "ValueError"


def test_two_messages_that_come_in_one_piece_are_both_heard(tmp_path):
    """As where the search was stopped, by Ctrl-Z say, while a short trial came to its end."""
    ours, theirs = socket.socketpair()
    ended = subprocess.Popen(["true"], start_new_session=True)
    ended.wait()
    runner = ForkServerRunner(tmp_path / "server.log")
    runner._connection = ours
    messages = [{"pid": ended.pid}, {"pid": ended.pid, "status": 0}]
    theirs.sendall("".join(json.dumps(message) + "\n" for message in messages).encode())
    reader, writer = os.pipe()
    try:
        spec = make_spec(tmp_path, "", {"timeout_s": 5.0})
        found = runner._watch(ours, spec, tmp_path / "log", reader, silent)
        assert found.how == 0
    finally:
        for item in (reader, writer):
            os.close(item)
        ours.close()
        theirs.close()


def test_closing_twice_or_unused_is_nothing(tmp_path):
    runner = ForkServerRunner(tmp_path / "server.log")
    runner.close()
    runner.close()


# ---- ends from outside ----


@pytest.mark.parametrize("phase", ["import", "warm-up", "window"])
def test_c47_ctrl_c_leaves_no_process_and_a_runner_that_works(runner, tmp_path, phase):
    def interrupt(message):
        if message["phase"] == phase:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(make_spec(tmp_path, ENDLESS, config=ENDLESS_WORKERS), tmp_path / "log", interrupt)
    if (tmp_path / "pid").exists():
        assert session_of(int((tmp_path / "pid").read_text())) == []
    assert session_of(server_of(runner)) == [server_of(runner)]
    assert runner.run(make_spec(tmp_path, FAIL_AT_ONCE), tmp_path / "log").failure.reason == "ValueError"


STEERING = """
import sys
sys.path.insert(0, {helpers!r})
from pathlib import Path
from trial_scripts import make_spec
from autotune.trials.runner import ForkServerRunner

folder = Path({folder!r})
runner = ForkServerRunner(folder / "server.log")
spec = make_spec(folder, {body!r}, config={config!r})
runner.run(spec, folder / "log", lambda message: print(message["phase"], runner._server.pid, flush=True))
"""


def test_c47_a_steering_process_that_is_killed_leaves_none_behind(tmp_path):
    code = STEERING.format(
        helpers=str(Path(__file__).parent), folder=str(tmp_path), body=ENDLESS, config=ENDLESS_WORKERS
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as steering:
        line = next(line for line in steering.stdout if line.startswith("warm-up"))
        server, leader = int(line.split()[1]), int((tmp_path / "pid").read_text())
        assert len(session_of(leader)) == 3
        steering.kill()
    assert wait_until(lambda: not session_of(leader) and not session_of(server), 2.0)


def test_c47_a_trial_whose_leader_is_killed_leaves_no_worker(trial):
    body = """
class Slow(Numbers):
    def load(self, index):
        time.sleep(0.05 if index % 100 else 60.0)

def build_dataset():
    return Slow()

def before_step():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = trial(body, config=ENDLESS_WORKERS)
    assert session_of(ran.pid) == []
    assert ran.record.outcome is Outcome.OUT_OF_MEMORY


def shared_memory() -> set[str]:
    """Return the segments and semaphores that lie there, without those of torch whose maker still runs."""
    names = {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(("torch_", "sem."))}
    return {name for name in names if name.startswith("sem.") or not psutil.pid_exists(int(name.split("_")[1]))}


def test_semaphores_of_spawned_workers_go_with_the_trial(runner, tmp_path):
    body = """
        import multiprocessing
        lock = multiprocessing.get_context("spawn").Lock()
        (HERE / "names").write_text(" ".join(name for name in os.listdir("/dev/shm") if str(os.getpid()) in name))
        os.kill(os.getpid(), 9)
    """
    runner.run(make_spec(tmp_path, body), tmp_path / "log")
    (name,) = (tmp_path / "names").read_text().split()
    assert name.startswith("sem.")
    assert not (Path("/dev/shm") / name).exists()


LEAVING = """
class Leaving(Numbers):
    def load(self, index):
        Path(f"/dev/shm/torch_{os.getpid()}_1_0").touch()
        with (HERE / "makers").open("a") as makers:
            makers.write(f"{os.getpid()} ")

def build_dataset():
    return Leaving()

def before_step():
    time.sleep(1.2)  # the steering process looks for new ones twice a second
"""
WAYS = {
    "the trial": "    os.kill(os.getpid(), signal.SIGKILL)",
    "its session": "    os.killpg(os.getpid(), signal.SIGKILL)",
    "a worker": "    os.kill(int((HERE / 'makers').read_text().split()[0]), signal.SIGKILL)",
    "the server": "    os.kill(os.getppid(), signal.SIGKILL)",
    "late": "    time.sleep(600)",
}


def segments_left(folder: Path) -> list[str]:
    """Return the names, in shared memory, of what the makers of `LEAVING` made there."""
    makers = set((folder / "makers").read_text().split())
    assert len(makers) >= 2
    return [name for name in os.listdir("/dev/shm") if name.startswith("torch_") and name.split("_")[1] in makers]


@pytest.mark.parametrize("way", WAYS)
def test_segments_of_killed_workers_go_with_the_trial(own_runner, tmp_path, way):
    """A batch that a worker was about to send has a name in shared memory that only the worker knows."""
    limits = {"timeout_s": 5.0 if way == "late" else 60.0}
    spec = make_spec(tmp_path, LEAVING + WAYS[way], limits, config=ENDLESS_WORKERS)
    assert not own_runner.run(spec, tmp_path / "log").outcome.measured
    assert wait_until(lambda: not segments_left(tmp_path), 2.0)


def test_segments_go_when_the_steering_process_is_killed(tmp_path):
    code = STEERING.format(
        helpers=str(Path(__file__).parent), folder=str(tmp_path), body=LEAVING, config=ENDLESS_WORKERS
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as steering:
        server = int(next(line for line in steering.stdout if line.startswith("warm-up")).split()[1])
        assert segments_left(tmp_path)
        steering.kill()
    assert wait_until(lambda: not segments_left(tmp_path) and not session_of(server), 5.0)


def test_i2_thirty_trials_leave_nothing(runner, tmp_path):
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(psutil.Process().children(recursive=True))

    spec = make_spec(tmp_path, FAIL_AT_ONCE, config=ENDLESS_WORKERS)
    runner.run(spec, tmp_path / "log")
    server_files = f"/proc/{server_of(runner)}/fd"
    before, server_before, left = held(), len(os.listdir(server_files)), set[str]()
    shared_before = shared_memory()
    for _ in range(30):
        assert runner.run(spec, tmp_path / "log").failure.reason == "ValueError"
        left |= shared_memory() - shared_before
    # others on the machine have segments, too: theirs come and go, what was left behind stays
    assert wait_until(lambda: not left & shared_memory(), 30.0), left & shared_memory()
    assert held() == before
    assert len(os.listdir(server_files)) == server_before
    children = psutil.Process(server_of(runner)).children()
    assert [child for child in children if child.status() == psutil.STATUS_ZOMBIE] == []


def test_a_damaged_record_is_said(trial, tmp_path):
    body = "import atexit\n" + FAIL_AT_ONCE.replace(
        "raise ValueError('at once')", "(HERE / 'record.json').write_text('{\"number\": '); os._exit(0)"
    )
    record = trial(body).record
    assert (record.outcome, record.failure.reason) == (Outcome.ERROR, "the trial left a damaged record")
    assert str(tmp_path / "record.json") in record.failure.message


def test_a_record_with_a_figure_that_cannot_be_is_told_by_that_figure(trial):
    body = "from functools import partial\nWorkload = partial(Workload, count_samples=lambda batch: 10**30)\n"
    record = trial(body).record
    assert (record.outcome, record.failure.reason) == (Outcome.ERROR, "the trial left a damaged record")
    assert "samples_per_step is not a number that can be" in record.failure.message
    assert "count_samples" in record.failure.message


def test_the_request_holds_any_script_name(trial, tmp_path):
    """What is sent is JSON of any length: long argument lists must not be cut."""
    body = "(HERE / 'argv').write_text(repr(sys.argv[1:]))\n" + FAIL_AT_ONCE
    spec = make_spec(tmp_path, body)
    long = tuple(f"--name={'ü' * 1000}{index}" for index in range(800))
    from dataclasses import replace

    record = trial(body, source=replace(spec.source, arguments=long)).record
    assert record.failure.reason == "ValueError"
    assert (tmp_path / "argv").read_text() == repr(list(long))
    assert json.loads((tmp_path / "record.json").read_text())["number"] == 1
