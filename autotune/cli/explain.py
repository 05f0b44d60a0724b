"""`autotune explain`: what the models believe after a search."""

from __future__ import annotations

from autotune.cli import flags
from autotune.cli.results import newest_run


def explain(run: flags.RunArgument = None) -> None:
    """Show what the search believes: the effect of each option, the memory line, what is expected of the rest."""
    from rich.console import Console

    from autotune.report.explain import print_explanation
    from autotune.report.run import read_run
    from autotune.search.explain import explain as explain_run
    from autotune.trials.folder import RunFolder

    found = read_run(RunFolder(newest_run() if run is None else run))
    print_explanation(Console(), found, explain_run(found.info, found.screening))
