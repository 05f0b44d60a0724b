"""No trial changes a file that was there, and each sees what it wrote itself."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from autotune.records import Outcome
from autotune.trials import sandbox
from autotune.trials.sandbox import GUARDS, landlock

ANOTHER = 65534  # a user with no rights, nobody as a rule
FILES = """
    import contextlib, json, os, shutil, sqlite3, tempfile
    from pathlib import Path
    import numpy as np, torch

    os.chdir(Path(__file__).parent)

    def use_files():
        torch.save({"weight": torch.ones(2)}, "model.pth")
        assert torch.load("model.pth")["weight"].sum() == 2
        Path("notes.txt").write_text("new")
        with open("notes.txt", "a") as file:
            file.write("er")
        assert Path("notes.txt").read_text() == "newer"
        with open("target.txt", "r+") as file:
            file.write("T")
        assert open("latest.txt").read() == "Target.txt"
        os.replace("keep.txt", "moved.txt")
        assert not os.path.exists("keep.txt") and open("moved.txt").read() == "keep.txt"
        shutil.rmtree("old")
        assert not Path("old").exists() and "old" not in os.listdir(".")
        os.makedirs("old/deep")
        np.save("old/deep/a.npy", np.ones(3))
        assert [entry.name for entry in os.scandir("old")] == ["deep"] and np.load("old/deep/a.npy").sum() == 3
        os.rename("old", "renamed")
        assert sorted(str(path) for path in Path(".").glob("renamed/**/*")) == ["renamed/deep", "renamed/deep/a.npy"]
        shutil.copyfile("model.pth", "best.pth")
        database = sqlite3.connect("figures.db")
        database.execute("insert into t values (1)")
        database.commit()
        assert database.execute("select count(*) from t").fetchall() == [(1,)]
        database.close()
        try:
            open("notes.txt", "x")
        except FileExistsError:
            pass
        else:
            raise AssertionError("notes.txt was there")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a").write_text("temporary")
        assert Path("/dev/null").write_text("nothing") and not os.path.exists("nowhere")
        Path(f"/dev/shm/autotune-test-{os.getpid()}").write_text("shared")
        os.remove(f"/dev/shm/autotune-test-{os.getpid()}")
        os.makedirs("runs/1", exist_ok=True)
        os.makedirs("runs/1", exist_ok=True)
        with contextlib.chdir("data"):
            np.save("cache.npy", np.ones(2))
            assert open("train.csv").read() == "data/train.csv" and sorted(os.listdir()) == ["cache.npy", "train.csv"]
        with contextlib.chdir("runs/1"):
            Path("log.txt").write_text("of the trial")
            assert open("../../data/train.csv").read() == "data/train.csv" and os.listdir(".") == ["log.txt"]
            os.chdir("../..")
            assert "train.py" in os.listdir()
        os.chdir(os.path.dirname(os.path.abspath(__file__)))
        assert open("data/train.csv").read() == "data/train.csv" and open("runs/1/log.txt").read() == "of the trial"
"""
TRAINING = """
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            with open("worker.log", "a") as file:
                file.write("read")
            with open("notes.txt", "w") as file:
                file.write("worker")
            return torch.ones(4), torch.ones(1)

    def build_model():
        return nn.Linear(4, 1)
"""
LOOP = """
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(400):
        for x, y in DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=1):
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.save(model, "model.pth")
"""


def test_a_script_sees_its_own_writes_and_nobody_else_does(real, write, unchanged, tmp_path):
    script = write(FILES + TRAINING + "    use_files()\n" + LOOP)
    before = unchanged()
    facts = real.probe(script, unmodified=True)
    record = real.run(
        script, config=dict(facts.baseline), unmodified=True, found=facts.script, dataset_length=facts.dataset_length
    )
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.updates > 3
    assert unchanged() == before
    assert {path.suffix for path in (tmp_path / "records").iterdir()} == {".json", ".log"}


def test_a_workload_of_factories_is_covered_too(real, write, unchanged):
    body = """
    import autotune

    def dataset():
        use_files()
        return Numbers()

    workload = autotune.Workload(
        model=build_model, dataset=dataset, loss=nn.MSELoss(), baseline={"batch_size": 8, "num_workers": 1}
    )
    """
    script = write(FILES + TRAINING + body)
    before = unchanged()
    record = real.run(script, config={"batch_size": 8, "num_workers": 1}, dataset_length=64)
    assert record.outcome is Outcome.OK, record.failure
    assert unchanged() == before


def test_what_cannot_be_redirected_is_refused_and_named(real, write, unchanged, way):
    if way != GUARDS or not landlock.available():
        pytest.skip("an overlay redirects all, and without landlock the kernel refuses nothing")
    script = write("""
        import os, torch
        os.chdir(os.path.dirname(os.path.abspath(__file__)))
        torch.UntypedStorage.from_file("notes.txt", shared=True, nbytes=4096)
    """)
    before = unchanged()
    failure = real.refusal(script, unmodified=True)
    assert "notes.txt" in failure.message
    assert "--no-sandbox" in failure.message
    assert unchanged() == before


def test_a_folder_that_an_overlay_does_not_rename_is_named(monkeypatch):
    """Where a trial is not root's, overlays rename no folder that was there."""
    monkeypatch.setattr(sandbox, "_entered", True)
    assert "a write to old" in sandbox.refusal(OSError(errno.EXDEV, os.strerror(errno.EXDEV), "old", None, "new"))


@pytest.mark.parametrize("kind", [Exception, BaseException])
def test_an_error_that_cannot_say_what_it_is_costs_no_record(monkeypatch, kind):
    class Mute(kind):
        def __str__(self):
            raise ValueError("no text")

    monkeypatch.setattr(sandbox, "_entered", True)
    assert sandbox.refusal(Mute()) == ""


def test_without_a_sandbox_a_trial_writes_as_its_script_does(runner, write, project, tmp_path):
    from tests.workload.real_trials import Real

    plain = Real(runner, tmp_path)
    script = write(f"from pathlib import Path\nPath({str(project / 'notes.txt')!r}).write_text('changed')")
    assert "ended without an update" in plain.refusal(script, unmodified=True).message
    assert (project / "notes.txt").read_text() == "changed"


def test_what_a_killed_trial_left_is_removed_although_nobody_may_look_into_it():
    user = os.geteuid()
    with TemporaryDirectory(dir="/tmp") as folder:
        scratch = Path(folder) / "0000.scratch"
        os.chown(folder, ANOTHER if user == 0 else user, -1)
        try:
            os.seteuid(ANOTHER if user == 0 else user)  # root may look into any
            locked = scratch / "1" / "work" / "work"
            (locked / "incompat" / "volatile").mkdir(parents=True)
            (locked / "file").write_text("left")
            for path in (locked / "incompat" / "volatile", locked / "incompat", locked):
                os.chmod(path, 0)
            sandbox.remove(scratch)
            assert not scratch.exists()
            sandbox.remove(scratch)
        finally:
            os.seteuid(user)


def test_a_trial_that_is_killed_leaves_nothing(real, write, tmp_path):
    script = write("import os, pathlib\npathlib.Path('big').write_text('x')\nos.kill(os.getpid(), 9)")
    failure = real.refusal(script, unmodified=True)
    assert "memory" in failure.reason
    assert not list(tmp_path.glob("records/*.scratch"))
    assert not Path("big").exists()
