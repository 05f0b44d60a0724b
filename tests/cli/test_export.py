"""`autotune export`, as people call it."""

from __future__ import annotations

import json
import os

import pytest

import autotune
from autotune.exporting import TARGETS
from tests.exporting.training import load

PATH = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
CONFIG = """
[options]
batch_size = 96  # was 64
num_workers = 2
worker_affinity = true

[machine]
device = "NVIDIA H200"
torch = "2.13.0"

[notes]
lines = ["Batch size 64 -> 96 changes the samples per optimizer step: the learning rate is left as it is."]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "best.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.filterwarnings("ignore:.*was made for")
def test_prints_the_file_with_the_notes(to, config, run):
    ended = run("export", "best.toml", "--to", to)
    assert ended.status == 0
    assert "batch_size" in ended.out
    assert "NVIDIA H200" in ended.out
    assert "learning rate is left as it is" in " ".join(ended.out.replace("#", "").split())


def test_a_config_of_another_machine_is_told_in_lines_of_their_own(config, process):
    ended = process("export", config, "--to", "json")
    assert ended.status == 0
    assert f"warning: {config} was made for device NVIDIA H200 (here " in ended.err
    assert all(line.startswith("warning: ") for line in ended.err.splitlines())


@pytest.mark.filterwarnings("ignore:.*was made for")
def test_what_is_left_out_is_said_on_standard_error(config, run):
    ended = run("export", "best.toml", "--to", "transformers")
    said = "worker_affinity = true: Trainer gives its DataLoader a worker_init_fn of its own"
    assert f"not expressed: {said}" in ended.err
    assert f"#   {said}" in ended.out
    assert "not expressed" not in run("export", "best.toml", "--to", "pytorch").err


@pytest.mark.filterwarnings("ignore:.*was made for")
def test_writes_a_file_once(config, run, tmp_path):
    ended = run("export", tmp_path, "--to", "json", "--out", "tuned.json")  # a run folder stands for its best.toml
    assert (ended.status, ended.out) == (0, "")
    written = (tmp_path / "tuned.json").read_text()
    assert json.loads(written)["options"] == {"batch_size": 96, "num_workers": 2, "worker_affinity": True}
    again = run("export", "best.toml", "--to", "yaml", "--out", "tuned.json")
    again.check_clear()
    assert (again.status, again.message.split("\n")[0]) == (2, "tuned.json exists")
    assert (tmp_path / "tuned.json").read_text() == written
    assert run("export", "best.toml", "--to", "yaml", "--out", "tuned.json", "--force").status == 0
    assert (tmp_path / "tuned.json").read_text().startswith("autotune: ")


@pytest.mark.parametrize(
    ("content", "to", "says"),
    [
        (CONFIG, "keras", "unknown format: keras"),
        (CONFIG, "Json", "Did you mean json"),
        (None, "json", "no such config"),
        ("not = toml = at all", "json", "is damaged"),
        ("x = 1", "json", "has no [options] table"),
        ("options = 3", "json", "has no [options] table"),
        ("[options]\nbatch_sise = 4", "json", "Did you mean batch_size"),
        ("[options]\nbatch_size = 'many'", "pytorch", "takes a whole number"),
        ("[options]\ncompile_mode = 'fast'", "pytorch", "compile_mode takes off, default"),
    ],
)
def test_mistakes_are_one_clear_message(content, to, says, run, tmp_path):
    if content is not None:
        (tmp_path / "best.toml").write_text(content)
    ended = run("export", "best.toml", "--to", to)
    ended.check_clear()
    assert ended.status == 2
    assert says in ended.message
    assert ended.out == ""


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["new", "forced"])
@pytest.mark.parametrize("place", ["no/such/folder/tuned.json", ".", "/", "best.toml/tuned.json"])
def test_place_that_cannot_be_written(place, force, run, tmp_path):
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = 4")
    ended = run("export", "best.toml", "--to", "json", "--out", place, *force)
    ended.check_clear()
    assert ended.status == 2
    assert ended.message.startswith(f"cannot write {place}: ")


def test_runs_without_torch(process, tmp_path):
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = 4\ncheckpoint_segments = 2\nchannels_last = true")
    (tmp_path / "torch.py").write_text("raise ImportError('torch was imported')")
    for to in TARGETS:
        ended = process("export", "best.toml", "--to", to, PYTHONPATH=os.pathsep.join([str(tmp_path), *PATH]))
        assert ended.status == 0, ended.err


ENCODER_DECODER = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.relu(self.inner(x))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList(Block() for _ in range(4))
        self.decoder = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        for block in (*self.encoder, *self.decoder):
            x = block(x)
        return self.head(x)

workload = autotune.Workload(
    model=Model, dataset=data, loss=nn.CrossEntropyLoss(), checkpoint_blocks="decoder",
    baseline={"batch_size": 8, "checkpoint_segments": 2},
)
"""


def recomputed(model):
    return [name for name, module in model.named_modules() if "forward" in vars(module)]


def test_the_blocks_that_a_workload_names_are_recomputed_by_whoever_takes_its_config(run, write, tmp_path):
    script = write(ENCODER_DECODER)
    ended = run("search", script, "--trials", 2, "--trial-budget", 1, "--verify", "none", "--out", "found", "--no-lock")
    assert ended.status == 0, ended.err
    module = {}
    exec(script.read_text(), module)
    (line,) = [line for line in ended.out.splitlines() if line.startswith("apply ")]
    best = tmp_path / "found" / "best.toml"
    head = best.read_text().splitlines()[1].removeprefix("#").strip()
    for text in (line.removeprefix("apply").strip(), head):
        made = {"autotune": autotune}
        exec(text.replace("found/best.toml", str(best)).replace('"best.toml"', json.dumps(str(best))), made)
        assert recomputed(made["tuned"].model(module["Model"]())) == ["decoder.0", "decoder.1"]
    ended = run("export", best, "--to", "pytorch", "--out", "tuned.py")
    assert ended.status == 0, ended.err
    exported = load(str(tmp_path / "tuned.py"))
    assert recomputed(exported.prepare_model(module["Model"]())) == ["decoder.0", "decoder.1"]
    assert json.loads(run("export", best, "--to", "json").out)["checkpoint_blocks"] == "decoder"
