"""`autotune export`: a config for those who train without autotune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.output import check_unused


def export(
    config: Annotated[Path, typer.Argument(help="A config file, or a run folder with its best.toml.")],
    to: Annotated[
        str,
        typer.Option("--to", help="pytorch, lightning, accelerate, transformers, json or yaml.", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option(help="The file to write; default: print it.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a config for training without autotune: plain PyTorch, arguments of other frameworks, or data.

    pytorch: a loader, model, optimizer and loop that give the losses that the config gives. lightning: arguments of
    Trainer and DataLoader. accelerate: Accelerator and a loop. transformers: TrainingArguments. What a format cannot
    express is listed in the file and on standard error.
    """
    from autotune.exporting import Export, target_named
    from autotune.exporting.base import said
    from autotune.trials.folder import write_atomically

    target = target_named(to)
    found = Export.read(config / "best.toml" if config.is_dir() else config)
    text = target.write(found)
    if out is None:
        typer.echo(text, nl=False)
    else:
        check_unused(out, force=force)
        write_atomically(out, text)
    for name, why in target.left_out(found).items():
        typer.echo(f"not expressed: {name} = {said(found.config[name])}: {why}", err=True)
