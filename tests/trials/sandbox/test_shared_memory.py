"""Data that were staged in /dev/shm stay as they are, and a trial's processes meet there as ever."""

from __future__ import annotations

import os
from multiprocessing import get_context
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import pytest

from autotune.trials.sandbox import GUARDS, OVERLAY, Sandbox, enter, overlay
from tests.workload.real_trials import Real

SCRIPT = """
    import os, shutil
    from multiprocessing import get_context, shared_memory
    from pathlib import Path
    import torch
    from torch.utils.data import DataLoader, Dataset

    staged, single = Path({staged!r}), Path({single!r})
    moved, draft = Path(f"{{staged}}-moved"), Path(f"{{staged}}.draft")

    def change():
        with open(staged / "longer", "a") as file:
            file.write("er")
        os.truncate(staged / "shorter", 0)
        os.replace(staged / "renamed", staged / "elsewhere")
        os.remove(staged / "removed")
        assert (staged / "longer").read_text() == "longerer" and not (staged / "removed").exists()
        assert sorted(os.listdir(staged)) == ["data", "elsewhere", "longer", "shorter"]
        draft.write_text("new")
        os.replace(draft, single)
        assert single.read_text() == "new" and not draft.exists()
        shutil.move(staged, moved)
        assert not staged.exists() and (moved / "elsewhere").read_text() == "renamed"
        shutil.rmtree(moved)
        (staged / "data").mkdir(parents=True)
        (staged / "data/read").write_text("of the trial")
        assert [path.name for path in staged.rglob("*")] == ["data", "read"]
        names = os.listdir("/dev/shm")
        assert staged.name in names and single.name in names and moved.name not in names

    def double(tensor, name):
        tensor *= 2
        memory = shared_memory.SharedMemory(name)
        memory.buf[0] = 2

    def share():
        memory = shared_memory.SharedMemory(create=True, size=1)
        for strategy in torch.multiprocessing.get_all_sharing_strategies():
            torch.multiprocessing.set_sharing_strategy(strategy)
            tensor = torch.ones(2).share_memory_()
            process = get_context("fork").Process(target=double, args=(tensor, memory.name))
            process.start()
            process.join()
            assert tensor.tolist() == [2, 2], strategy
        with open(f"/dev/shm/{{memory.name}}", "rb") as file:
            assert memory.buf[0] == 2 and file.read(1) == bytes([2])
        memory.close()
        memory.unlink()

    class Staged(Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            assert (staged / "data/read").read_text() == "of the trial"
            return torch.ones(4), torch.ones(1)

    assert os.statvfs("/dev/shm").f_blocks <= {room}
    change()
    share()
    with get_context("spawn").Lock():
        model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(400):
        for x, y in DataLoader(Staged(), batch_size=8, num_workers=1):
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
NAMES = ("longer", "shorter", "renamed", "removed", "data/read")


@pytest.fixture
def staged(way):
    """A folder in /dev/shm as a user has it."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        if way == OVERLAY and not overlay.memory_can_be_overlaid(folder):
            pytest.skip("this system permits no overlay of /dev/shm")
        (Path(folder) / "data").mkdir()
        for name in NAMES:
            (Path(folder) / name).write_text(name)
        yield Path(folder)


def test_what_was_staged_stays_and_a_trials_processes_share_memory(staged, sandboxed, way, write):
    """With the run folder there, too."""
    with TemporaryDirectory(dir="/dev/shm") as folder, NamedTemporaryFile(dir="/dev/shm") as single:
        blocks = os.statvfs("/dev/shm").f_blocks
        script = write(SCRIPT.format(staged=str(staged), single=single.name, room=blocks - (way == OVERLAY)))
        Real(sandboxed, Path(folder)).probe(script, unmodified=True)
        assert single.read() == b""
        assert {path.suffix for path in Path(folder).iterdir()} == {".json", ".log"}
    assert {str(path.relative_to(staged)): path.read_text() for path in staged.rglob("*") if path.is_file()} == {
        name: name for name in NAMES
    }
    assert [name for name in os.listdir("/dev/shm") if name.startswith(staged.name)] == [staged.name]


def change(scratch, way, file):
    enter(Sandbox(scratch=scratch, kept=()), way, scratch / "temporary")
    file.write_text("of the trial")


@pytest.mark.parametrize("why", ["CUDA's server of many processes", "an old libc"])
def test_shared_memory_is_left_open_where_programs_would_not_meet_otherwise(why, staged, way, tmp_path, monkeypatch):
    if why == "an old libc":
        monkeypatch.setattr(overlay, "GLIBC", (99,))
    else:
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    trial = get_context("fork").Process(target=change, args=(tmp_path, way, staged / "longer"))
    trial.start()
    trial.join()
    assert trial.exitcode == 0
    covered = why == "an old libc" and way == GUARDS
    assert (staged / "longer").read_text() == ("longer" if covered else "of the trial")
