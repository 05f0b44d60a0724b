"""`autotune init`: a workload's skeleton beside a script, from what was seen while it ran."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli import flags
from autotune.cli.naming import Named
from autotune.cli.parsing import parse_values, source_of
from autotune.errors import ScriptError, UsageError
from autotune.records import TrialSpec

if TYPE_CHECKING:
    from autotune.search.setup import Prepared
    from autotune.trials.folder import RunFolder
    from autotune.trials.runner import ForkServerRunner


def init(
    script: flags.Script,
    arguments: flags.Arguments = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; default: SCRIPT_tune.py beside it.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    baseline: flags.Baseline = None,
    device: flags.DeviceName = "",
    no_sandbox: flags.NoSandbox = False,
) -> None:
    """Run a few steps of SCRIPT and write a Workload for it: model, data, step and optimizer as far as they show.

    Where all of it shows, `autotune search` takes the file as it is; what does not is named, and so is what the script
    does beside it. Arguments after -- are the script's own.
    """
    from autotune.cli.search import end_like_ctrl_c
    from autotune.search.run import check_script
    from autotune.search.setup import Wishes, prepare
    from autotune.trials.folder import RunFolder
    from autotune.trials.runner import ForkServerRunner

    source = source_of(script, arguments, Named())
    check_script(source)
    if not source.unmodified:
        raise UsageError(f"{script} has a workload already", hint=f"autotune search {script}")
    target = out or script.with_name(f"{script.stem}_tune.py")
    if target.exists() and not force:
        raise UsageError(f"{target} exists", hint="--force replaces it, --out names another.")
    end_like_ctrl_c()
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        runner = ForkServerRunner(folder.server_log, sandbox=not no_sandbox)
        wishes = Wishes(device=device, baseline=parse_values(baseline or ()))
        try:
            prepared = prepare(source, wishes, runner, folder)
            sketch = _sketch(prepared, runner, folder)
        finally:
            runner.close()
    try:
        target.write_text(sketch["text"], encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}", hint="Name another with --out.") from None
    print(f"{target} written")
    if sketch["missing"]:
        print(f"complete in it: {', '.join(sketch['missing'])}")
    if sketch["left_out"]:
        print("otherwise in the script, marked TODO there:")
        print("\n".join(f"  {note}" for note in sketch["left_out"]))
    print(f"then: autotune search {target}")


def _sketch(prepared: Prepared, runner: ForkServerRunner, folder: RunFolder) -> dict[str, Any]:
    """Return the text of the file, what is missing in it, and what the script does otherwise."""
    spec = TrialSpec(
        number=1,
        kind="sketch",
        config={},
        baseline=prepared.facts.baseline,
        source=prepared.source,
        device=prepared.facts.device,
        limits=prepared.limits,
        record_path=str(folder.record(1).resolve()),
        found=prepared.facts.script,
    )
    record = runner.run(spec, folder.log(1))
    if record.failure is not None:
        raise ScriptError(record.failure.message, traceback=record.failure.traceback)
    return dict(record.facts or {})
