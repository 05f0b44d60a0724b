"""Every target expresses or lists every value of every option, whatever the file says; data come back as they were."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import tomllib
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import tomli_w
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from autotune.config import Config
from autotune.errors import UsageError
from autotune.exporting import TARGETS, Export, target_named
from autotune.exporting.base import comment
from autotune.options import OPTIONS
from autotune.options.base import Option
from autotune.plan import Plan

OTHER = {
    "batch_size": 24,
    "accumulation": 2,
    "precision": "fp16",
    "matmul_precision": "high",
    "num_workers": 3,
    "prefetch_factor": 5,
    "multiprocessing_context": "forkserver",
    "inplace_activations": "all but head.*:SiLU",
    "checkpoint_segments": 2,
    "optimizer_impl": "fused",
    "compile_mode": "reduce-overhead",
    "activation_memory_budget": 60,
    "num_threads": 3,
}
"""a value of each option that is no switch, other than the default"""
TRACES = {
    "device_prefetch": "torch.Stream",
    "cache_dataset": "for index in range(len(dataset))",
    "worker_affinity": "worker_init_fn=",
    "channels_last": "torch.channels_last",
    "checkpoint_segments": "checkpoint_chain(model, 2, path=None)",
    "inplace_activations": '["head.*:SiLU"]',
    "optimizer_impl": "fused=True",
    "expandable_segments": "expandable_segments:True",
    "cudnn_benchmark": "cudnn.benchmark = True",
    "deterministic": "use_deterministic_algorithms(True)",
    "matmul_precision": 'precision("high")',
    "num_threads": "set_num_threads(3)",
    "compile_mode": 'mode="reduce-overhead"',
    "activation_memory_budget": "budget = 0.6",
}
"""words by which the code of an option is known where its name does not stand in it"""
CODE = [target for target in TARGETS.values() if target.suffix == ".py"]
DATA = {"json": json.loads, "yaml": yaml.safe_load}


def other(option):
    return not option.default if isinstance(option.default, bool) else OTHER[option.name]


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def option(request):
    return request.param


def alone(option):
    """A config with one option and those that it needs."""
    values = {option.name: other(option)}
    if option.needs is not None:
        values |= {option.needs: other(OPTIONS[option.needs])}
    return Export(Config(**values))


def code_of(text):
    """The text without its comments."""
    return ast.unparse(ast.parse(text)).replace("'", '"')


@pytest.mark.parametrize("target", CODE, ids=lambda target: target.name)
def test_option_is_in_the_code_or_listed(option, target):
    export = alone(option)
    text = target.write(export)
    without = target.write(export.only(set(export.config) - {option.name}))
    left = target.left_out(export)
    if option.name in left:
        assert f"{option.name} = " in text.partition("# Not expressed here:")[2]
        assert left[option.name]
        assert code_of(text) == code_of(without)
    else:
        assert code_of(text) != code_of(without)
        if option.name in TRACES and target.name == "pytorch":
            assert TRACES[option.name] in code_of(text)


def test_plain_pytorch_expresses_everything(option):
    assert not TARGETS["pytorch"].left_out(alone(option))


class Unheard(Option):
    name, help, default = "unheard", "an option of tomorrow", 0

    def choices(self, context):
        return (0, 1)

    def apply(self, value, plan):
        self.edit(plan)


def of_a_new_field(plan):
    plan.novelty = 1


def a_function_without_words(plan):
    plan.model_transforms.append(len)


def an_argument_of_the_loader(plan):
    plan.loader["in_order"] = False


@pytest.mark.parametrize("target", CODE, ids=lambda target: target.name)
@pytest.mark.parametrize("edit", [of_a_new_field, a_function_without_words, an_argument_of_the_loader])
def test_option_added_later_is_expressed_or_listed(edit, target, monkeypatch):
    new = Unheard()
    new.edit = edit
    monkeypatch.setitem(OPTIONS, new.name, new)
    if edit is of_a_new_field:
        monkeypatch.setattr("autotune.plan.Plan", NewPlan)
    export = Export(Config(batch_size=4, unheard=1))
    text = target.write(export)
    if edit is an_argument_of_the_loader and target.loader is None:
        assert not target.left_out(export)
        assert "in_order=False" in text
    else:
        assert list(target.left_out(export)) == ["unheard"]
        assert "#   unheard = 1: " in text


@dataclass
class NewPlan(Plan):
    """A plan with one more field."""

    novelty: int = 0


def test_option_without_effect_is_said_to_have_none():
    for target in TARGETS.values():
        export = Export(Config(batch_size=4, prefetch_factor=4, worker_affinity=True))
        assert target.left_out(export) == {
            "prefetch_factor": "without effect, since num_workers is 0",
            "worker_affinity": "without effect, since num_workers is 0",
        }
        text = target.write(export)
        assert "worker_init_fn=" not in text
        assert "prefetch_factor=4" not in text


def test_numbers_are_those_of_the_config():
    found = {}
    exec(TARGETS["transformers"].write(Export(Config(batch_size=24, num_workers=3, accumulation=2))), found)
    assert found["TRAINING_ARGUMENTS"] == {
        "dataloader_pin_memory": False,
        "per_device_train_batch_size": 24,
        "dataloader_num_workers": 3,
        "gradient_accumulation_steps": 2,
    }
    exec(TARGETS["lightning"].write(Export(Config(precision="fp16", accumulation=2))), found)
    assert found["TRAINER"]["precision"] == "16-mixed"
    assert found["TRAINER"]["accumulate_grad_batches"] == 2


@pytest.mark.parametrize(
    ("machine", "on_cpu"),
    [({"torch_device": "cpu"}, True), ({"torch_device": "cuda:0"}, False), ({"device": "a card"}, False), (3, False)],
)
def test_transformers_is_told_that_it_trains_on_a_cpu(machine, on_cpu):
    found = {}
    text = TARGETS["transformers"].write(Export(Config(precision="bf16"), {"machine": machine}))
    exec(text, found)
    assert found["TRAINING_ARGUMENTS"].get("use_cpu", False) is on_cpu
    assert ("measured on a CPU" in text) is on_cpu


CPU_ALONE = {"pytorch": 'DEVICE = torch.device("cpu")', "lightning": 'accelerator="cpu"', "accelerate": "cpu=True"}


@pytest.mark.parametrize("target", CPU_ALONE)
@pytest.mark.parametrize("torch_device", ["cpu", "cuda:0"])
def test_what_was_measured_on_a_cpu_trains_there(target, torch_device):
    text = TARGETS[target].write(Export(Config(precision="bf16"), {"machine": {"torch_device": torch_device}}))
    assert (CPU_ALONE[target] in code_of(text)) is (torch_device == "cpu")


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ({"precision": "fp16", "optimizer_impl": "fused"}, "under 16-mixed where"),
        ({"precision": "bf16", "optimizer_impl": "fused"}, "under bf16-mixed where"),
        ({"precision": "fp16", "optimizer_impl": "foreach"}, ""),
        ({"optimizer_impl": "fused"}, ""),
    ],
    ids=str,
)
def test_lightning_that_refuses_to_clip_is_warned_of(values, warned):
    text = TARGETS["lightning"].write(Export(Config(batch_size=4, **values)))
    assert warned in text
    assert ("does not clip" in text) is bool(warned)


@pytest.mark.parametrize("drop", [True, False])
def test_transformers_whose_evaluations_would_leave_samples_out_is_warned_of(drop):
    text = TARGETS["transformers"].write(Export(Config(batch_size=4, drop_last=drop)))
    assert ("dataloader_drop_last leaves out a last batch that" in text) is drop


def usage(text):
    """The code in the comment at the top that says how the file is used."""
    top = text.partition("# Settings")[0]
    return textwrap.dedent("\n".join(re.findall(r"^# (    .*)$", top, re.MULTILINE)))


@pytest.mark.parametrize("target", CODE, ids=lambda target: target.name)
@pytest.mark.parametrize("values", [{"batch_size": 4}, {"channels_last": True, "optimizer_impl": "fused"}], ids=str)
def test_usage_is_code(target, values):
    assert len(ast.parse(usage(target.write(Export(Config(**values))))).body) > 0


def test_lightning_module_of_the_usage_takes_a_network():
    """A LightningModule is an nn.Module, which takes no other before its own init."""
    code = usage(TARGETS["lightning"].write(Export(Config(batch_size=4))))
    found = {"L": SimpleNamespace(LightningModule=nn.Module), "prepare_model": lambda model: model}
    exec(code.partition("L.Trainer")[0], found)
    network = nn.Linear(2, 2)
    assert found["Mine"](network).network is network


text = st.text(st.characters(codec="utf-8"), max_size=40)


@settings(deadline=None, max_examples=30)
@given(text, st.lists(text, max_size=3), text)
def test_text_of_a_file_never_leaves_the_comments(note, more, device):
    document = {"notes": {"lines": [note, *more]}, "machine": {"device": device}, "measured": {"status": note}}
    config = Config(batch_size=4)
    for target in CODE:
        hostile = target.write(Export(config, document, name=device))
        assert code_of(hostile) == code_of(target.write(Export(config)))
    for name, parse in DATA.items():
        assert parse(TARGETS[name].write(Export(config, document)))["options"] == {"batch_size": 4}


@pytest.mark.parametrize("words", ["all but x'\"y:ReLU", "all but \\n:ReLU", "all but ''':ReLU", 'all but """:ReLU'])
def test_text_of_a_value_stays_text(words):
    export = Export(Config(batch_size=4, inplace_activations=words))
    tree = ast.parse(TARGETS["pytorch"].write(export))
    (value,) = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "NOT_IN_PLACE"
    ]
    assert ast.literal_eval(value) == words.split()[2:]


def test_exported_code_refuses_a_model_without_a_module_that_is_to_be_left_alone():
    exported = {}
    exec(TARGETS["pytorch"].write(Export(Config(inplace_activations="all but *:ReLU"))), exported)
    layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout())
    with pytest.raises(ValueError, match="not the model that was measured"):
        exported["prepare_model"](nn.ModuleDict({"network": layers}))


def test_comment_wraps_and_marks_every_line():
    lines = comment("word " * 60 + "\nimport os\n\n\x1b[31mred", "  ").splitlines()
    assert all(line.startswith("#") and len(line) <= 113 for line in lines)
    assert lines[-1] == "# red"


@pytest.mark.parametrize("name", DATA)
def test_data_comes_back_as_it_was(name, option):
    config = Config(**{option.name: other(option), "num_workers": 2})
    document = {
        "machine": {"device": "a: b # c", "cores": "2"},
        "measured": tomllib.loads('date = 2026-12-01\nspeed = inf\nshare = 1.5\nlist = [1, "yes"]'),
        "notes": {"lines": ["Batch size 64 -> 96: mind the learning rate", "no", "1e3", "- x"]},
    }
    found = DATA[name](TARGETS[name].write(Export(config, document)))
    assert Config(**found["options"]) == config
    assert {key: type(value) for key, value in found["options"].items()} == {
        key: type(value) for key, value in config.items()
    }
    assert found["notes"] == document["notes"]["lines"]
    assert found["machine"] == document["machine"]
    assert found["measured"] == {"date": "2026-12-01", "speed": "inf", "share": 1.5, "list": [1, "yes"]}


def test_file_without_the_other_tables_or_with_damaged_ones(tmp_path):
    path = tmp_path / "own.toml"
    for document in ({}, {"notes": 3, "machine": [1], "measured": "x"}, {"notes": {"lines": 3}}):
        path.write_text(tomli_w.dumps({"options": {"batch_size": 4}, **document}))
        export = Export.read(path)
        for target in TARGETS.values():
            assert "batch_size" in target.write(export)


def test_unknown_format_names_the_nearest():
    with pytest.raises(UsageError, match="unknown format: Pytorh\nDid you mean pytorch"):
        target_named("Pytorh")
