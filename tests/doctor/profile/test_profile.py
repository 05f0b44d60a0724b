from __future__ import annotations

import pytest

from autotune.doctor.profile.data import Operation, Profile, Profiles
from autotune.doctor.profile.run import profile
from autotune.errors import UsageError


def made(trace, **shares):
    operations = tuple(Operation(name=name, seconds=share, calls=1, share=share) for name, share in shares.items())
    return Profile(
        config={},
        device="cpu",
        device_name="",
        steps=4,
        step_s=1.0,
        samples_per_step=1.0,
        operations=operations,
        trace=str(trace),
        trace_bytes=3,
    )


class Looks:
    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def at(self, kind, name, config, baseline):
        self.asked.append((name, config, baseline))
        return self.answers.pop(0)


def test_what_is_heavy_on_either_side_is_shown():
    found = Profiles(before=made("", conv=0.6, relu=0.3, add=0.1), after=made("", conv=0.5, copy=0.4, add=0.1))
    assert found.heaviest(3) == ["conv", "copy", "relu"]
    assert found.before.share("copy") == 0.0


def test_baseline_and_config_are_looked_at_apart_and_their_traces_kept(tmp_path):
    source = tmp_path / "trace"
    source.write_bytes(b"abc")
    looks = Looks(made(source), made(source))
    found = profile(looks, tmp_path / "out", config={"batch_size": 8}, baseline={"batch_size": 4})
    assert looks.asked == [
        ("profile", {}, {"batch_size": 4}),
        ("profile", {"batch_size": 8}, {"batch_size": 4}),
    ]
    assert found.before.trace == str(tmp_path / "out" / "baseline.trace.json.gz")
    assert (tmp_path / "out" / "config.trace.json.gz").read_bytes() == b"abc"


def test_a_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out"):
        profile(Looks(), tmp_path / "file" / "below")
