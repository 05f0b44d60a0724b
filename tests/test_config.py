"""Configs: values, equality, files; whatever a file holds, ConfigError is all that comes of it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.config import MAX_FILE_BYTES, Config, read_document
from autotune.errors import ConfigError
from autotune.machine import Gpu, Machine
from autotune.options import OPTIONS

SOUND = """\
# Made by autotune.
[options]
batch_size = 64  # was 32
precision = "bf16"
persistent_workers = true

[workload]
script = "train.py"
"""


def load(tmp_path, content):
    path = tmp_path / "best.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Config.load(path)


def test_load_reads_the_options_alone(tmp_path):
    assert load(tmp_path, SOUND) == Config(batch_size=64, precision="bf16", persistent_workers=True)


def test_every_config_survives_a_file(tmp_path):
    config = Config(batch_size=24, num_workers=3, pin_memory=True, precision="fp16", num_threads=0)
    assert load(tmp_path, tomli_w.dumps({"options": dict(config)})) == config


def test_unset_options_are_pytorchs_defaults():
    assert {name: Config().value(name) for name in OPTIONS} == {name: item.default for name, item in OPTIONS.items()}


def test_order_of_values_does_not_matter():
    first, second = Config(batch_size=8, num_workers=2), Config(num_workers=2, batch_size=8)
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)
    assert list(first) == list(second)


def test_difference_names_what_this_config_comes_to():
    assert Config(num_workers=2).difference(Config(batch_size=8)) == {"batch_size": 1, "num_workers": 2}
    assert Config(num_workers=0).difference(Config()) == {}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"batch_size": True}, "batch_size takes a whole number"),
        ({"batch_size": 8.0}, "batch_size takes a whole number"),
        ({"batch_size": 0}, "batch_size must be 1 or more"),
        ({"pin_memory": 1}, "pin_memory takes true or false"),
        ({"precision": "tf32"}, "precision takes fp32, bf16 or fp16"),
        ({"precision": ["bf16"]}, "precision takes fp32, bf16 or fp16"),
        ({"self": 1}, "unknown option: self"),
        ({"num_worker": 1}, "unknown option: num_worker"),
    ],
)
def test_impossible_values_are_refused(values, says):
    with pytest.raises(ConfigError, match=says):
        Config(**values)


DAMAGED = {
    "not TOML": "[options\nbatch_size = 8",
    "no options": "[measured]\nspeedup = 2.0",
    "options is a number": "options = 3",
    "options is a list": "[[options]]\nbatch_size = 8",
    "value is a table": "[options.batch_size]\nx = 1",
    "value is a list": "[options]\nprecision = ['bf16']",
    "value is a date": "[options]\nbatch_size = 2020-01-01",
    "value is text": "[options]\nbatch_size = '64'",
    "value is infinite": "[options]\nbatch_size = inf",
    "unknown option": "[options]\nbatchsize = 8",
    "option called self": "[options]\nself = 8",
    "empty name": "[options]\n'' = 8",
    "twice": "[options]\nbatch_size = 8\nbatch_size = 8",
    "number of thousands of digits": "[options]\nbatch_size = " + "9" * 6000,
    "empty": "",
    "binary": b"\x80\x04\x95\x00\xff\xfe",
    "null bytes": b"[options]\n\x00",
    "utf-16": "[options]".encode("utf-16"),
    "deep": "[options]\nbatch_size = " + "[" * 5000 + "]" * 5000,
    "deep tables": "[" + ".".join(["options"] * 3000) + "]",
    "huge": "#" * (MAX_FILE_BYTES + 1),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_h5_damaged_file_is_a_config_error_with_one_message(name, tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, DAMAGED[name])
    assert "best.toml" in caught.value.message
    assert len(caught.value.message) < 500


def test_file_that_is_not_there_or_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="no such config"):
        Config.load(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        Config.load(tmp_path)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_h5_mutated_files_never_raise_anything_else(data, tmp_path):
    content = bytearray(SOUND.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.sampled_from([b"", b"[", b"'", b"=", b"\n", b"\xff", b"self", b"1e9", b"{", b"0x", b"-"]))
        content[at : at + data.draw(st.integers(0, 8))] = piece
    try:
        config = load(tmp_path, bytes(content))
    except ConfigError:
        return
    assert set(config) <= set(OPTIONS)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*OPTIONS, "self", "values", "x"]),
        st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.lists(st.integers(), max_size=2)),
    )
)
def test_any_values_make_a_config_or_a_config_error(values):
    try:
        config = Config(**values)
    except ConfigError:
        return
    assert dict(config) == {name: values[name] for name in config}
    assert hash(config) == hash(Config(**dict(config)))


def test_file_of_another_machine_warns_and_names_what_differs(tmp_path):
    here = Machine.read().identity()
    path = tmp_path / "best.toml"
    path.write_text(
        tomli_w.dumps({"options": {"batch_size": 8}, "machine": {**here, "torch": "1.0.0", "cores": "977"}})
    )
    with pytest.warns(UserWarning, match="made for") as seen:
        assert Config.load(path) == Config(batch_size=8)
    texts = "\n".join(str(item.message) for item in seen)
    assert "torch 1.0.0 (here" in texts
    assert "cores 977 (here" in texts
    assert "device" not in texts


@pytest.mark.parametrize("cards", [(), ("a card",)])
@pytest.mark.parametrize(("torch_device", "device"), [("cpu", "this CPU"), ("cuda:0", "a card"), ("cuda:0", "another")])
def test_a_file_is_compared_with_the_device_that_it_names(cards, torch_device, device, tmp_path, monkeypatch):
    gpus = tuple(
        Gpu(index=index, name=name, total_bytes=1, free_bytes=1, driver="570", processes=0)
        for index, name in enumerate(cards)
    )
    here = replace(Machine.read(), cpu="this CPU", gpus=gpus)
    monkeypatch.setattr(Machine, "read", lambda: here)
    path = tmp_path / "best.toml"
    machine = {"device": device, "torch_device": torch_device}
    path.write_text(tomli_w.dumps({"options": {"batch_size": 8}, "machine": machine}))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Config.load(path)
    assert bool(seen) is (device not in ("this CPU", *cards))


@pytest.mark.parametrize("machine", ["machine = 3", "[machine]\ntorch = 3", "[machine]\ntorch = {}"])
def test_odd_machine_tables_do_no_harm(machine, tmp_path):
    assert load(tmp_path, machine + "\n[options]\nbatch_size = 8\n") == Config(batch_size=8)


def test_loading_executes_nothing(tmp_path):
    (tmp_path / "best.toml").write_text("[options]\nbatch_size = \"__import__('os').system('touch made')\"\n")
    with pytest.raises(ConfigError):
        Config.load(tmp_path / "best.toml")
    assert read_document(tmp_path / "best.toml")["options"]["batch_size"].startswith("__import__")
    assert not (tmp_path / "made").exists()
