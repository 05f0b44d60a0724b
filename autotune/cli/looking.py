"""What `doctor`, `memory` and `profile` share: a workload that is looked at in child processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.naming import Named
from autotune.cli.parsing import source_of

if TYPE_CHECKING:
    from autotune.config import Config
    from autotune.doctor.look import Look

ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", help="A tuned state to look at: a config file, or a run folder.", show_default=False),
]


def config_at(path: Path | None) -> Config | None:
    """Return the config in a file, or the best one of a run folder; None where no path was given.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    from autotune.config import Config

    if path is None:
        return None
    return Config.load(path / "best.toml" if path.is_dir() else path)


@contextmanager
def looking(
    script: Path,
    arguments: list[str] | None,
    named: Named,
    *,
    device: str,
    wait: bool,
    no_lock: bool,
) -> Iterator[Look]:
    """Hold the device and a fork server meanwhile; what is written beside results is gone at the end."""
    from rich.console import Console

    from autotune.cli.search import end_like_ctrl_c
    from autotune.doctor.look import Look
    from autotune.search.run import check_script
    from autotune.trials.folder import RunFolder
    from autotune.trials.lock import DeviceLocks
    from autotune.trials.runner import ForkServerRunner

    source = source_of(script, arguments, named)
    check_script(source)
    end_like_ctrl_c()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        locks = DeviceLocks(script.name, console.print, wait=wait, enabled=not no_lock)
        runner = ForkServerRunner(folder.server_log, sandbox=True)
        try:
            locks.take(device)
            with console.status("import") as status:
                yield Look(
                    source,
                    folder,
                    runner,
                    device=device,
                    report=lambda message: status.update(str(message["phase"])),
                )
        finally:
            runner.close()
            locks.release()
