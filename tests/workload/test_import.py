"""How a script is imported: its own arguments, name, folder, cwd, no terminal, no trackers, a time limit."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from autotune.records import Outcome
from autotune.workload.script import QUIET

SOUND = """
workload = autotune.Workload(
    model=lambda: nn.Linear(4, 3),
    dataset=lambda: TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,))),
    loss=nn.CrossEntropyLoss(),
    baseline={"batch_size": 8},
)
"""
REPORT = """
import json, os, sys
print("SEEN " + json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "cwd": os.getcwd(), "file": __file__,
    "environment": dict(os.environ), "known": sys.modules[__name__].__dict__ is globals(),
}))
"""


def seen(real):
    """Return what the script said of itself; standard output is the log."""
    line = next(line for line in real.log_text.splitlines() if line.startswith("SEEN "))
    return json.loads(line.removeprefix("SEEN "))


def test_c07_script_gets_its_own_arguments(real, write):
    script = write(REPORT + SOUND)
    real.probe(script, arguments=("--data", "a folder", "-x"))
    assert seen(real)["argv"] == [str(script), "--data", "a folder", "-x"]


def test_c07_arguments_parsed_on_import_work(real, write):
    script = write("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--width", type=int, required=True)
        args = parser.parse_args()
        def build_model(): return nn.Linear(4, args.width)
        def build_dataset(): return TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
        loss = nn.CrossEntropyLoss()
    """)
    assert real.probe(script, arguments=("--width", "5")).parameters == 25
    refusal = real.refusal(script)
    assert "parses its arguments on import" in refusal.message
    assert "--" in refusal.message
    assert "usage: script.py" in real.log_text  # the user's program name, not ours


def test_c45_module_has_its_own_name_folder_and_entry(real, write):
    script = write(REPORT + SOUND, "my_training.py")
    real.probe(script)
    found = seen(real)
    assert found["name"] == "my_training"
    assert found["path"] == str(script.parent)
    assert found["file"] == str(script)
    assert found["known"]


def test_c26_trackers_are_off_unless_the_user_set_them(real, write, monkeypatch):
    real.probe(write(REPORT + SOUND))
    environment = seen(real)["environment"]
    assert {name: environment[name] for name in QUIET} == QUIET


def test_c26_what_is_set_is_kept(monkeypatch, tmp_path):
    from autotune.workload.script import import_script

    (tmp_path / "quiet_script.py").write_text("import os\nmode = os.environ['WANDB_MODE'], os.environ['COMET_MODE']\n")
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", [])
    module = import_script(tmp_path / "quiet_script.py", ())
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    assert module.mode == ("offline", "disabled")


def test_script_imports_its_sibling(real, write, tmp_path):
    (tmp_path / "my_sibling.py").write_text("WIDTH = 3\n")
    real.probe(write("from my_sibling import WIDTH\n" + SOUND.replace("nn.Linear(4, 3)", "nn.Linear(4, WIDTH)")))


@pytest.mark.parametrize(
    "name", ["random.py", "statistics.py", "torch.py", "my-training.py", "2fast.py", "autotune.py"]
)
def test_script_named_like_a_module_or_like_none(name, real, write):
    facts = real.probe(write("import random, statistics\nassert random.random\n" + SOUND, name))
    assert facts.parameters == 15


def test_input_fails_and_does_not_hang(real, write):
    refusal = real.refusal(write("answer = input('continue? ')\n" + SOUND), timeout_s=20)
    assert "EOFError" in refusal.message
    assert "no terminal" in refusal.message


def test_import_that_takes_too_long_is_ended(real, write):
    record = real.run(write("import time\ntime.sleep(60)\n" + SOUND), "probe", timeout_s=1.5)
    assert record.outcome is Outcome.TIMEOUT
    assert "1.5 s" in record.failure.message
    assert record.wall_s < 15


def test_guarded_script_is_imported_and_not_run(real, write, tmp_path):
    real.probe(write(SOUND + f"if __name__ == '__main__':\n    open({str(tmp_path / 'ran')!r}, 'w').close()\n"))
    assert not (tmp_path / "ran").exists()


def test_prints_and_warnings_go_to_the_log(real, write):
    real.probe(write("import sys, warnings\nprint('{\"phase\": 1}')\nprint('oops', file=sys.stderr)\n" + SOUND))
    assert '{"phase": 1}' in real.log_text
    assert "oops" in real.log_text


def test_c79_the_three_generators_are_seeded(real, write):
    script = write(
        "import random, numpy\nprint('SEEN', [random.random(), numpy.random.rand(), torch.rand(1)])\n" + SOUND
    )
    logs = []
    for seed in (0, 0, 1):
        real.probe(script, seed=seed)
        logs.append(real.log_text)
    assert logs[0] == logs[1] != logs[2]


CLASS_IN_SCRIPT = """
class Numbers(Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): return torch.randn(4), index % 3
workload = autotune.Workload(
    model=lambda: nn.Linear(4, 3), dataset=Numbers, loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}, COLLATE
)
"""
LAMBDA = "collate_fn=lambda samples: torch.utils.data.default_collate(samples)"
START = "import multiprocessing\nmultiprocessing.set_start_method('METHOD', force=True)\n"


@pytest.mark.parametrize("collate", ["", LAMBDA], ids=["plain", "lambda"])
def test_c15_under_fork_anything_goes_to_workers(collate, real, write):
    script = write(CLASS_IN_SCRIPT.replace("COLLATE", collate))
    assert real.probe(script).workers_refused is None
    record = real.run(script, config={"batch_size": 8, "num_workers": 1}, dataset_length=64)
    assert record.outcome is Outcome.OK, record.failure


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_c15_lambda_under_other_start_methods_is_refused_with_the_reason(method, real, write):
    script = write(START.replace("METHOD", method) + CLASS_IN_SCRIPT.replace("COLLATE", LAMBDA))
    facts = real.probe(script)
    assert facts.start_method == method
    assert "cannot be sent to loader processes" in facts.fork_only


@pytest.mark.slow
def test_c15_class_of_the_script_is_found_by_spawned_workers(real, write):
    script = write(START.replace("METHOD", "spawn") + CLASS_IN_SCRIPT.replace("COLLATE", ""), "spawning.py")
    assert real.probe(script).workers_refused is None
    record = real.run(
        script, config={"batch_size": 8, "num_workers": 1, "persistent_workers": True}, dataset_length=64, timeout_s=90
    )
    assert record.outcome is Outcome.OK, record.failure


def test_c15_class_that_spawned_workers_cannot_import_is_refused(real, write):
    script = write(START.replace("METHOD", "spawn") + CLASS_IN_SCRIPT.replace("COLLATE", ""), "my-spawning.py")
    assert "my-spawning.py" in real.probe(script).fork_only


def test_c76_overridden_methods_of_the_model_do_no_harm(real, write):
    real.probe(
        write(
            dedent("""
                class Own(nn.Linear):
                    def compile(self, optimizer): raise AssertionError
                    def train(self, mode=True): return super().train(mode)
            """)
            + SOUND.replace("nn.Linear(4", "Own(4")
        )
    )


def test_a_workload_of_a_package_finds_what_it_imports_relatively(real, write, tmp_path):
    (tmp_path / "vision").mkdir()
    write("def build_model(): return nn.Linear(4, 3)", "vision/nets.py")
    script = write(
        "from .nets import build_model\n" + SOUND.replace("lambda: nn.Linear(4, 3)", "build_model"), "vision/a.py"
    )
    assert real.probe(script).parameters == 15
