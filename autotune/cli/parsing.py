"""From the text of command-line options to values: option=value pairs, the script's source."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autotune.cli.naming import Named
from autotune.errors import UsageError
from autotune.options import OPTIONS, Value, option_named
from autotune.records import Source

TRUE, FALSE = ("true", "on", "yes"), ("false", "off", "no")


def parse_values(pairs: Iterable[str]) -> dict[str, Value]:
    """Return the values of "batch_size=64,num_workers=2", given once or several times.

    Raises:
        UsageError: not in that form, an unknown option, a value that it cannot take.
    """
    values: dict[str, Value] = {}
    for pair in (part for text in pairs for part in text.split(",") if part.strip()):
        name, value = _split(pair, "batch_size=64")
        values[name] = parse_value(name, value)
    return values


def parse_baseline(pairs: Iterable[str] | None, deterministic: bool) -> dict[str, Value]:
    """Return what the user runs today, with the wish for deterministic algorithms, which belongs to each run of it."""
    return parse_values(pairs or ()) | ({"deterministic": True} if deterministic else {})


def parse_choices(texts: Iterable[str]) -> dict[str, list[Value]]:
    """Return the values of "num_workers=0,2,4", given once or several times."""
    choices: dict[str, list[Value]] = {}
    for text in texts:
        name, values = _split(text, "num_workers=0,2,4")
        given = [parse_value(name, value) for value in values.split(",") if value.strip()]
        if not given:
            raise UsageError(f"{text}: not in the form num_workers=0,2,4")
        choices[name] = [*choices.get(name, ()), *given]
    return choices


def parse_names(texts: Iterable[str]) -> list[str]:
    """Return the option names of "channels_last,precision", given once or several times."""
    return [option_named(name.strip()).name for text in texts for name in text.split(",") if name.strip()]


def parse_allowed(texts: Iterable[str]) -> frozenset[str]:
    """Return the options of "cache_dataset", given once or several times, that are tried only when asked for.

    Raises:
        UsageError: an unknown option, or one that needs no leave.
    """
    names = parse_names(texts)
    askable = [option.name for option in OPTIONS.values() if option.opt_in]
    for name in names:
        if name not in askable:
            raise UsageError(
                f"--allow {name}: {name} needs no leave",
                hint=f"What is tried with leave alone: {', '.join(askable)}. --fix sets an option to a value.",
            )
    return frozenset(names)


def parse_where(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Return the values asked for by option of "precision=bf16" and "num_workers=0,2", given once or several times.

    Raises:
        UsageError: a pair that is none, or a value that the option cannot have.
        ConfigError: an unknown option.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, values = _split(text, "precision=bf16")
        option_named(name)
        found[name] = (*found.get(name, ()), *(parse_value(name, value) for value in values.split(",")))
    return found


def parse_value(name: str, text: str) -> Value:
    """Return `text` as a value of the option called `name`."""
    option = option_named(name)
    word = text.strip().lower()
    value: Value = text.strip()
    if isinstance(option.default, bool) and word in (*TRUE, *FALSE):
        value = word in TRUE
    elif isinstance(option.default, int) and re.fullmatch(r"[+-]?\d{1,18}", word):
        value = int(word)
    complaint = option.check(value)
    if complaint:
        raise UsageError(f"{name}={text}: {name} {complaint}")
    return value


def source_of(script: Path, arguments: Iterable[str] | None, named: Named) -> Source:
    """Return where the workload comes from, as the command line names it.

    Raises:
        UsageError: no such script.
        ScriptError: it has a syntax error.
    """
    return way_of(
        Source(
            script=str(script.resolve()),
            arguments=tuple(arguments or ()),
            workload=named.workload,
            functions={role: name for role, name in named.functions.items() if name},
        )
    )


def way_of(source: Source) -> Source:
    """Return the source with the way it is run by: as it is, where the script offers no workload and none is named.

    Raises:
        UsageError: no such script.
        ScriptError: it has a syntax error.
    """
    from autotune.workload.static import look

    if source.workload or source.functions or look(Path(source.script)).has_workload:
        return source
    return replace(source, unmodified=True)


def _split(pair: str, example: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise UsageError(f"{pair}: not in the form {example}")
    return name.strip(), value
