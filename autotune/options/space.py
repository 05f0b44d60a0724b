"""The space of a search: the options that apply here, their choices, and what makes two configs the same."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.config import Config
from autotune.errors import UsageError
from autotune.options import OPTIONS, option_named
from autotune.options.base import Context, Inapplicable, Maths, Option, Value
from autotune.options.batch_size import largest_batch
from autotune.plan import edits_of


@dataclass(frozen=True)
class Space:
    """Options with their choices. A canonical config sets each of them that has an effect, and nothing else."""

    context: Context
    choices: Mapping[str, tuple[Value, ...]]
    """by option name, in registry order; an option with one choice is fixed"""
    reasons: Mapping[str, str]
    """options that do not apply, and why"""
    baseline: Config
    """what the user runs today, canonical; its batch size may lie beside the choices"""

    def options(self) -> list[Option]:
        return [OPTIONS[name] for name in self.choices]

    @cached_property
    def decided(self) -> dict[str, str]:
        """Options that are no choice of their own, each with the one whose value decides it."""
        found: dict[str, str] = {}
        for name, option in OPTIONS.items():
            by = option.decided_by(self.context)
            if by is not None and by in self.choices and name not in {*self.choices, *self.reasons}:
                found[name] = by
        return found

    def canonical(self, config: Config) -> Config:
        """Return the one config that stands for all that measure the same as `config` here.

        Options of the space that `config` does not set take the baseline's value, or where they have no effect there
        one of the choices; inert ones are left out.
        """
        values = {name: self._value(name, config) for name in self.choices}
        # the baseline's may lie beside what is decided here, as its batch size may beside the choices
        is_baseline = all(values.get(name, config.get(name)) == value for name, value in self.baseline.items())
        for name, by in self.decided.items():
            values[name] = self.baseline[name] if is_baseline else OPTIONS[name].decide(values[by], self.context)
        return Config(**{name: value for name, value in values.items() if not self._inert(name, values)})

    def legal(self, config: Config) -> str | None:
        """Return why the combination cannot run here, or None."""
        refusals = (OPTIONS[name].refusal(config.value(name), self.context) for name in self.choices)
        conflicts = (
            OPTIONS[name].conflict({other: config.value(other) for other in (name, *OPTIONS[name].meets)}, self.context)
            for name in self.choices
        )
        return next(filter(None, itertools.chain(refusals, conflicts)), None)

    def size(self) -> int:
        """Return the number of configs, counting those with inert values once for each value."""
        return math.prod(len(values) for values in self.choices.values())

    def expert(self) -> Config:
        """Return what an experienced engineer would set first, as far as the choices allow."""
        values = {}
        for option in self.options():
            wanted = option.expert(self.context)
            values[option.name] = wanted if wanted in self.choices[option.name] else self._today(option.name)
        return self.canonical(Config(**values))

    def digest(self) -> str:
        """Return a hash of the choices: the same space has the same digest."""
        text = json.dumps({name: list(values) for name, values in self.choices.items()})
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _today(self, name: str) -> Value:
        """Return the baseline's value where it may be chosen, else PyTorch's default, else the first choice."""
        for value in (self.baseline.value(name), OPTIONS[name].default):
            if value in self.choices[name]:
                return value
        return self.choices[name][0]

    def _value(self, name: str, config: Config) -> Value:
        """Return what a config sets, else the baseline, else what may be chosen in the place of the baseline's."""
        for one in (config, self.baseline):
            if name in one:
                return one[name]
        return self._today(name)

    def _inert(self, name: str, values: Mapping[str, Value]) -> bool:
        needed = OPTIONS[name].needs
        if needed is None:
            return False
        return values.get(needed, OPTIONS[needed].default) == OPTIONS[needed].default


def touching_maths(baseline: Config, config: Config) -> dict[str, Value]:
    """Return the values of `config` that differ from the baseline's and may move the numbers of a step."""
    return {
        name: value for name, value in config.difference(baseline).items() if OPTIONS[name].claim is not Maths.UNTOUCHED
    }


def make_space(
    context: Context,
    *,
    fixed: Mapping[str, Value] | None = None,
    restricted: Mapping[str, Sequence[Value]] | None = None,
    excluded: Sequence[str] = (),
) -> Space:
    """Return the space of a search, with what the user fixed, restricted or left out.

    Raises:
        UsageError: a value that the option cannot take, or an option that does not apply here.
    """
    fixed, restricted = dict(fixed or {}), dict(restricted or {})
    named = [*fixed, *restricted, *dict.fromkeys(excluded)]
    for name in named:
        option_named(name)
        if named.count(name) > 1:
            raise UsageError(f"{name} is named by more than one of --fix, --choices and --exclude")
    choices: dict[str, tuple[Value, ...]] = {}
    reasons: dict[str, str] = {}
    for option in OPTIONS.values():
        name = option.name
        today = context.baseline.get(name, option.default)
        found = _on_a_script(option, option.choices(context), context)
        if option.needs in reasons and option.needs not in choices and not isinstance(found, Inapplicable):
            found = Inapplicable(f"needs {option.needs}: {reasons[option.needs]}")
        asked = name in restricted or (name in fixed and fixed[name] != today)
        if isinstance(found, Inapplicable) and not (found.unless_asked and asked):
            reasons[name] = found.reason
            if found.keep or (found.unless_asked and (today != option.default or name in context.allowed)):
                choices[name] = (today,)
            if asked:
                raise UsageError(f"{name} does not apply here: {found.reason}")
        elif (by := option.decided_by(context)) is not None:
            if name in named:
                raise UsageError(f"{name} follows from {by} here", hint=f"Fix or restrict {by} instead.")
        elif name in fixed:
            choices[name] = (_checked(option, fixed[name], context),)
        elif name in restricted:
            choices[name] = tuple(dict.fromkeys(_checked(option, value, context) for value in restricted[name]))
        elif name in excluded:
            choices[name] = (today,)
            reasons[name] = "excluded"
        else:
            assert not isinstance(found, Inapplicable)  # one that has to be asked for was not
            choices[name] = tuple(_with_today(option, found, today, context))
    for name in choices:
        _leave_out_hopeless(OPTIONS[name], choices, context)
    # what the user runs today, whatever the search was restricted to: it may lie beside the choices
    names = [*choices, *Space(context, choices, reasons, Config()).decided]
    baseline = Config(**{name: context.baseline.get(name, OPTIONS[name].default) for name in names})
    return Space(context, choices, reasons, Space(context, choices, reasons, baseline).canonical(baseline))


def _on_a_script(
    option: Option, found: Sequence[Value] | Inapplicable, context: Context
) -> Sequence[Value] | Inapplicable:
    """Leave out what cannot be applied from outside to a script that runs as it is, or what it decides itself."""
    facts = context.facts
    if isinstance(found, Inapplicable) or facts.script is None:
        return found
    if option.name in facts.refused:
        return Inapplicable(facts.refused[option.name])
    reason, left = "", []
    for value in found:
        edited = edits_of(option.name, value)
        refusals = [why for name, why in facts.not_carried_out.items() if name in edited]
        if refusals:
            reason = refusals[0]
        else:
            left.append(value)
    return left if len(left) > 1 or not reason else Inapplicable(reason)


def _checked(option: Option, value: Value, context: Context) -> Value:
    complaint = option.check(value)
    if complaint:
        raise UsageError(f"{option.name} = {value!r}: {option.name} {complaint}")
    refusal = option.refusal(value, context)
    if refusal:
        raise UsageError(f"{option.name}={value} cannot run here: {refusal}")
    return value


def _with_today(option: Option, found: Sequence[Value], today: Value, context: Context) -> Sequence[Value]:
    """Add the baseline's value, except a batch size off the grid or too large: it is measured beside the space."""
    if today in found or (option.name == "batch_size" and not _on_grid(int(today), context)):
        return found
    # values without an order keep theirs; a number goes to its place
    return sorted([*found, today]) if option.ordered and option.name != "num_threads" else [*found, today]


def _leave_out_hopeless(option: Option, choices: dict[str, tuple[Value, ...]], context: Context) -> None:
    """Take away the values that run with none of the values of the options that they meet."""
    others = [choices.get(name, (OPTIONS[name].default,)) for name in option.meets]

    def why_not(value: Value) -> str | None:
        together = [dict(zip((option.name, *option.meets), values, strict=True)) for values in _product(value, others)]
        reasons = [option.conflict(values, context) for values in together]
        return None if None in reasons else reasons[0]

    refused = {value: reason for value in choices[option.name] if (reason := why_not(value))}
    left = tuple(value for value in choices[option.name] if value not in refused)
    if left:
        choices[option.name] = left


def _product(value: Value, others: Sequence[Sequence[Value]]) -> Iterator[tuple[Value, ...]]:
    return itertools.product([value], *others)


def _on_grid(size: int, context: Context) -> bool:
    possible = size <= largest_batch(context) and OPTIONS["batch_size"].refusal(size, context) is None
    return possible and size % context.batch_step == 0
