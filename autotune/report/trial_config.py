"""The config of one trial as a config file: for whoever takes another one than the search handed out."""

from __future__ import annotations

from pathlib import Path

from autotune.config import Config
from autotune.errors import ConfigError, RunFolderError
from autotune.numerics import Numerics, Status, not_checked
from autotune.options.space import touching_maths
from autotune.report.evidence import checked_maths
from autotune.report.run import Run
from autotune.search.emit import emit
from autotune.search.info import space_of
from autotune.search.measured import Measured
from autotune.search.observation import observe
from autotune.search.setup import Prepared, deciding_limit


def write_config(run: Run, number: int, path: Path) -> None:
    """Write the config of a trial, as best.toml has one, with what the search alone measured of it.

    Raises:
        RunFolderError: no trial of that number, a damaged run, or the file cannot be written.
    """
    config, prepared = Config(**run.record(number).config), _prepared(run)
    baseline = _measured(run, run.baseline, prepared)
    emit(path, _measured(run, config, prepared), baseline, prepared, numerics=_numerics(run, config))


def _prepared(run: Run) -> Prepared:
    """Return the workload as the search had prepared it."""
    try:
        space = space_of(run.info)
    except (ValueError, ConfigError) as error:
        raise RunFolderError(f"damaged {run.folder.run}: {error}") from None
    return Prepared(
        source=run.info.source,
        facts=space.context.facts,
        machine=space.context.machine,
        space=space,
        limits=run.info.limits,
        accelerator=run.accelerator,
        planned_samples=run.info.planned_samples,
        script_hash=run.info.script_hash,
    )


def _measured(run: Run, config: Config, prepared: Prepared) -> Measured:
    """Return what the search saw of a config, in all its trials."""
    limit = deciding_limit(prepared.limits, prepared.accelerator)
    found = Measured(config)
    for record in run.screening:
        if not Config(**record.config).difference(config):
            found.add(record, observe(record, config, limit, prepared.accelerator))
    return found


def _numerics(run: Run, config: Config) -> Numerics | None:
    """Return what the numerics guard says of the config; None: it is the baseline."""
    if not config.difference(run.baseline):
        return None
    if not touching_maths(run.baseline, config):
        return Numerics(status=Status.UNTOUCHED)
    return checked_maths(run, config) or not_checked("the search did not look at this config")
