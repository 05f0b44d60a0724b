"""The steering side of the doctor."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.config import Config
from autotune.doctor.findings import Diagnosis
from autotune.doctor.look import Look
from autotune.options.base import Value


def diagnose(look: Look, *, config: Config | None = None, baseline: Mapping[str, Value] | None = None) -> Diagnosis:
    """Let the doctor look at a workload, as it runs today or under `config`.

    Raises:
        ScriptError: the user's code failed; carries its traceback.
        WorkloadError: the workload cannot be trained as it is.
    """
    return look.at(Diagnosis, "doctor", dict(config or {}), dict(baseline or {}))
