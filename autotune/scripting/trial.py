"""A trial of a script: the phases of a measurement, on the script's own loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.config import Config
from autotune.device import device_named
from autotune.errors import ScriptError
from autotune.measure.protocol import Wanted, measure
from autotune.plan import plan_for
from autotune.records import Source, TrialSpec
from autotune.scripting.driver import Driver
from autotune.scripting.main_module import end_of, exit_error, quiet_trackers, run_as_main
from autotune.scripting.training import ScriptSession, ScriptTraining

_held: list[Driver] = []
"""scripts that are held where they are until the process ends: a greenlet that is let go would be unwound"""


def script_of(source: Source) -> Callable[[], None]:
    """Return what runs the script from begin to end.

    Raises, when called:
        ScriptError: the script exits with a status other than 0.
    """
    script = Path(source.script)

    def execute() -> None:
        try:
            run_as_main(script, source.arguments)
        except SystemExit as error:
            if end_of(error)[0]:
                raise exit_error(script, source.arguments, error) from None

    quiet_trackers()
    return execute


def keep(driver: Driver) -> None:
    """Let the driver's script stay where it is held until the process ends."""
    _held.append(driver)


def measure_script(spec: TrialSpec, progress: Callable[..., None], seconds: dict[str, float]) -> dict[str, Any]:
    """Return the parts of the record that a successful trial has."""
    if spec.found is None:
        raise ScriptError("a trial of a script needs to know how the script trains")
    progress("build", {})
    at = time.perf_counter()
    config = Config(**spec.config)
    device = device_named(spec.device)
    device.cap_memory(spec.limits.device_bytes)
    driver = Driver(script_of(spec.source), plan_for(config), device, spec.found)
    keep(driver)
    driver.install()
    try:
        driver.start()
        # the phases' first step is the script's second, which is as quick as all others
        seconds["build_s"] = time.perf_counter() - at - driver.first_batch_s
        session = ScriptSession(
            training=ScriptTraining(driver, config),
            device=device,
            limits=spec.limits,
            dataset_length=spec.dataset_length,
            fixed_batch=spec.fixed_batch,
            progress=progress,
            clock=driver.clock,
            left_out=driver.clock.left_out,
            seconds=seconds,
        )
        driver.on_rerun = lambda: session.flag("script_rerun")
        if driver.runs > 1:
            driver.on_rerun()
        measurement, gradient_names = measure(session, Wanted.of(spec))
        seconds["first_batch_s"] = driver.first_batch_s
        return {"measurement": measurement, "gradient_names": gradient_names}
    finally:
        driver.close()
