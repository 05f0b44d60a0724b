"""The steering side of `autotune profile`: the baseline and a config, each in a process of its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autotune.config import Config
from autotune.doctor.look import Look
from autotune.doctor.profile.data import Profile, Profiles
from autotune.errors import UsageError
from autotune.options.base import Value

KIND = "profile"


def profile(
    look: Look, out: Path, *, config: Config | None = None, baseline: Mapping[str, Value] | None = None
) -> Profiles:
    """Profile what the user runs today, and a config beside it; the traces lie in the folder `out` afterwards.

    Raises:
        ScriptError: the user's code failed; carries its traceback.
        WorkloadError: the workload cannot be trained as it is.
        UsageError: nothing can be written to `out`.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    today = dict(baseline or {})
    before = look.at(Profile, KIND, {}, today)
    after = None if config is None else look.at(Profile, KIND, dict(config), today)
    return Profiles(
        before=_kept(before, out / "baseline.trace.json.gz"),
        after=None if after is None else _kept(after, out / "config.trace.json.gz"),
    )


def _kept(found: Profile, path: Path) -> Profile:
    try:
        shutil.copyfile(found.trace, path)
    except OSError as error:
        raise UsageError(f"the trace cannot be written to {path}: {error.strerror}") from None
    return replace(found, trace=str(path))
