"""`autotune run`: the script as it is, to its end, with a config applied."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli import flags

if TYPE_CHECKING:
    from autotune.scripting.run import AppliedConfig


def run(
    script: flags.Script,
    arguments: flags.Arguments = None,
    config: Annotated[
        Path | None, typer.Option(help="A config file, or a run folder with its best.toml.", show_default=False)
    ] = None,
) -> None:
    """Run SCRIPT as it is, to its end, with a config applied from outside; arguments after -- are its own.

    What was applied, and what could not be, is printed once on stderr. The exit status is the script's.
    """
    from autotune.config import Config, read_document
    from autotune.errors import UsageError
    from autotune.workload.static import look

    look(script)
    path = config or Path("results") / script.stem
    path = path / "best.toml" if path.is_dir() else path
    if config is None and not path.exists():
        raise UsageError("which config?", hint="Name it: --config best.toml")
    chosen = Config.load(path)
    made_for = read_document(path).get("workload", {})

    from autotune.scripting.run import AppliedConfig, run_script

    made_for = made_for if isinstance(made_for, dict) else {}
    hints = _hints(script, made_for)
    today = {} if hints else _today(made_for)

    def tell(applied: AppliedConfig) -> None:
        for line in _account(script, path, applied, today, hints):
            print(line, file=sys.stderr, flush=True)

    def note(text: str) -> None:
        print(f"autotune: {text}", file=sys.stderr, flush=True)

    applied = AppliedConfig(chosen, _training_loader(made_for), tell, note)
    status = run_script(script, tuple(arguments or ()), applied)
    raise typer.Exit(status)


def _training_loader(made_for: Mapping[str, Any]) -> int | None:
    """Return the number of the training loader, where the config was made for a script as it is."""
    number = made_for.get("training_loader")
    return number if type(number) is int and number >= 0 else None


def _today(made_for: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the script was seen to set itself when the config was made."""
    found = made_for.get("baseline")
    return found if isinstance(found, dict) else {}


def _hints(script: Path, made_for: Mapping[str, Any]) -> list[str]:
    from autotune.records import Source
    from autotune.search.setup import script_hash

    known = made_for.get("script_sha256")
    if known is not None and known != script_hash(Source(script=str(script))):
        return [f"{script} is not the script, or no longer the text, that the config was made for"]
    return []


def _account(script: Path, path: Path, applied: AppliedConfig, today: Mapping[str, Any], hints: list[str]) -> list[str]:
    """Return the lines that say what was applied to what, and what could not be and why.

    Nothing is missing where a config says what the script does `today`.
    """
    config = applied.config
    lines = [f"autotune: {path} on {script}"]
    groups: dict[str, list[str]] = {}
    for name, where in applied.applied.items():
        groups.setdefault(where, []).append(_setting(name, config[name]))
    for where, settings in groups.items():
        lines.append(f"  applied: {', '.join(settings)}" + (f" (loader of {where})" if where else ""))
    refused = {name: reason for name, reason in applied.refused.items() if today.get(name) != config[name]}
    for name, reason in refused.items():
        lines.append(f"  not applied: {_setting(name, config[name])}: {reason}")
    if not applied.applied and not refused:
        beside = "what the script does by itself" if applied.refused else "PyTorch's defaults"
        lines.append(f"  the config sets nothing beside {beside}")
    return lines + [f"  note: {hint}" for hint in hints]


def _setting(name: str, value: Any) -> str:
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"
