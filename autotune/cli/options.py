"""`autotune options`: every option with its choices here, or why it does not apply."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import flags
from autotune.cli.naming import Named, names_workload
from autotune.cli.parsing import parse_allowed, parse_baseline, parse_choices, parse_names, parse_values, source_of
from autotune.errors import UsageError
from autotune.options import OPTIONS, option_named


@names_workload
def options(
    script: Annotated[
        Path | None,
        typer.Argument(help="The training script; or the name of an option, for its page.", show_default=False),
    ] = None,
    arguments: flags.Arguments = None,
    *,
    named: Named,
    baseline: flags.Baseline = None,
    deterministic: flags.Deterministic = False,
    device: flags.DeviceName = "",
    fix: flags.Fix = None,
    choices: flags.Choices = None,
    exclude: flags.Exclude = None,
    allow: flags.Allow = None,
    max_batch: flags.MaxBatch = None,
    batch_step: flags.BatchStep = 8,
    effective_batch: flags.EffectiveBatch = None,
    keep_batch: flags.KeepBatch = False,
    everything: Annotated[bool, typer.Option("--all", help="The pages of all options; no script is run.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Pages as Markdown source.")] = False,
) -> None:
    """List every option with its choices on this workload and machine, or why it does not apply.

    `autotune options precision` explains one option, `autotune options --all` all of them.
    """
    if everything or script is None or _names_an_option(script):
        _print_pages(None if everything else script, markdown)
        return
    if markdown:
        raise UsageError("--markdown is for pages: name an option, or --all")
    from rich.console import Console

    from autotune.cli.search import end_like_ctrl_c
    from autotune.report.options import print_options
    from autotune.search.run import check_script
    from autotune.search.setup import Wishes, prepare
    from autotune.trials.folder import RunFolder
    from autotune.trials.runner import ForkServerRunner

    source = source_of(script, arguments, named)
    wishes = Wishes(
        device=device,
        baseline=parse_baseline(baseline, deterministic),
        fixed=parse_values(fix or ()),
        restricted=parse_choices(choices or ()),
        excluded=parse_names(exclude or ()),
        allowed=parse_allowed(allow or ()),
        max_batch=max_batch,
        batch_step=batch_step,
        effective_batch=effective_batch,
        keep_batch=keep_batch,
    )
    check_script(source)
    end_like_ctrl_c()
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        runner = ForkServerRunner(folder.server_log, sandbox=True)
        try:
            prepared = prepare(source, wishes, runner, folder)
        finally:
            runner.close()
    print_options(Console(), prepared.space)


def _names_an_option(script: Path) -> bool:
    """Tell whether an option is meant, and not a script.

    Raises:
        ConfigError: it is neither; names the nearest option.
    """
    if script.exists() or script.suffix or len(script.parts) > 1:
        return False
    return option_named(str(script)) is not None


def _print_pages(name: Path | None, markdown: bool) -> None:
    """Print the page of one option, or those of all."""
    from rich.console import Console
    from rich.markdown import Markdown

    from autotune.report.option_page import all_pages, option_page

    text = all_pages() if name is None else option_page(OPTIONS[str(name)])
    if markdown:
        sys.stdout.write(text)
    else:
        Console().print(Markdown(text))
