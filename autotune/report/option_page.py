"""One page an option, made from the option's own module and nothing else, so that it cannot go stale."""

from __future__ import annotations

import ast
import inspect
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from types import ModuleType

from autotune.facts import Facts
from autotune.machine import Machine
from autotune.options import OPTIONS, Context, Effect, Inapplicable, Maths, Option, Value
from autotune.plan import Plan, plan_for
from autotune.words.figures import GIB, percent
from autotune.words.text import value_text

CLAIMS = {
    Maths.UNTOUCHED: "nothing changes in what a step computes",
    Maths.EXACT: "the same gradients but for the order of sums: as near to float64 as the baseline's own",
    Maths.ROUNDED: "other number formats or algorithms: gradients that point the same way",
}
MOST_VALUES, SHOWN_VALUES, LONGEST_CODE = 6, 3, 24
SPEAKING = ("refusal", "conflict")
"""methods that return why a value cannot be used"""


def option_page(option: Option) -> str:
    """Return everything that an option's module says of it, as Markdown."""
    parts = [f"## {option.name}", _about(option), *_values(option), _claim(option), *_conditions(option)]
    parts += [*_effects(option), *_snippets(option)]
    return "\n\n".join(part for part in parts if part) + "\n"


def all_pages() -> str:
    """Return the pages of all options, with a table of them first."""
    return "\n".join([options_overview(), *(option_page(option) for option in OPTIONS.values())])


def options_overview() -> str:
    """Return a Markdown table of all options: name and help."""
    rows = [f"| `{option.name}` | {option.help} |" for option in OPTIONS.values()]
    return "\n".join(["| option | what it is |", "|---|---|", *rows]) + "\n"


def _about(option: Option) -> str:
    told = inspect.getdoc(_module(option)) or ""
    return told.partition(": ")[2] or option.help if told.startswith(option.name) else told or option.help


def _values(option: Option) -> Iterator[str]:
    yield f"*{option.help}*"
    lines = [f"- PyTorch's default: `{value_text(option.default)}`"]
    for where, context in examples().items():
        found = option.choices(context)
        if isinstance(found, Inapplicable):
            lines.append(f"- on {where}: does not apply: {found.reason}")
        else:
            shown = [f"`{value_text(value)}`" for value in found]
            if len(shown) > MOST_VALUES:
                shown = [*shown[:MOST_VALUES], "...", shown[-1]]
            told = ", ".join(shown)
            lines.append(f"- on {where}: {told}; an expert sets `{value_text(option.expert(context))}`")
    if option.opt_in:
        lines.append(f"- tried only when asked for: `--allow {option.name}`")
    if option.needs:
        lines.append(f"- has an effect only where `{option.needs}` is not `{_default_of(option.needs)}`")
    yield "\n".join(lines)


def _claim(option: Option) -> str:
    result = " It may change the result of the training." if option.changes_result else ""
    moves = f"It moves: {', '.join(sorted(option.affects))}. " if option.affects else ""
    return f"{moves}What it claims of the maths, and is held to: {CLAIMS[option.claim]}.{result}"


def _conditions(option: Option) -> Iterator[str]:
    found = list(dict.fromkeys(_reasons(_module(option))))
    if found:
        yield "Does not apply, or not with every value, where:"
        yield "\n".join(f"- {reason}" for reason in found)


def _effects(option: Option) -> Iterator[str]:
    """Yield what is expected of the values before anything was measured."""
    told: dict[Value, dict[str, str]] = {}
    for where, context in examples().items():
        for value in _some(_others(option, context)):
            if effect := _effect_text(option.prior(value, context)):
                told.setdefault(value, {})[where] = effect
    if told:
        yield "What the search expects before it has measured anything, against the default:"
        rows = [[f"`{value_text(value)}`", *(by.get(where, "") for where in examples())] for value, by in told.items()]
        head = ["value", *(f"on {where}" for where in examples())]
        yield "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def _some(values: list[Value]) -> list[Value]:
    """Return a few values, spread over all of them."""
    step = -(-len(values) // MOST_VALUES) or 1
    return values[::step]


def _effect_text(effect: Effect) -> str:
    sides = {"compute time": effect.compute, "loading time": effect.loader, "activation memory": effect.memory}
    told = [f"{side} {_signed(math.exp(change) - 1)}" for side, change in sides.items() if change]
    return ", ".join(told)


def _signed(change: float) -> str:
    return percent(change) if change < 0 else f"+{percent(change)}"


def _snippets(option: Option) -> Iterator[str]:
    """Yield what the values of the examples come to in plain PyTorch."""
    values = dict.fromkeys(value for context in examples().values() for value in _others(option, context))
    for value in _some(list(values))[:SHOWN_VALUES]:
        snippet = option.snippet(value)
        lines = [*_plan_lines(option.name, value), *snippet.parts()]
        if lines:
            code = "\n".join(lines)
            if code.count("\n") >= LONGEST_CODE:
                code = "\n".join([*code.splitlines()[:LONGEST_CODE], "# ...: autotune export writes it whole"])
            advice = f"{snippet.advice}\n\n" if snippet.advice else ""
            yield f"`{option.name} = {value_text(value)}` comes to:\n\n{advice}```python\n{code}\n```"


def _plan_lines(name: str, value: Value) -> Iterator[str]:
    """Yield what a value edits in the plan that is carried out, as far as it is data."""
    plain, plan = Plan(), plan_for({name: value})
    for item in fields(Plan):
        before, after = getattr(plain, item.name), getattr(plan, item.name)
        if item.name in ("loader", "optimizer"):
            what = "DataLoader" if item.name == "loader" else "Optimizer"
            arguments = ", ".join(f"{key}={argument!r}" for key, argument in after.items() if not callable(argument))
            if arguments:
                yield f"{what}(..., {arguments})"
        elif after != before and isinstance(after, bool | int | str):
            yield f"# Tuned: {item.name} = {after!r}"


def _others(option: Option, context: Context) -> list[Value]:
    """Return the choices other than the default."""
    found = option.choices(context)
    return [] if isinstance(found, Inapplicable) else [value for value in found if value != option.default]


def _default_of(name: str) -> str:
    return value_text(OPTIONS[name].default)


def _module(option: Option) -> ModuleType:
    return sys.modules[type(option).__module__]


def _reasons(module: ModuleType) -> Iterator[str]:
    """Yield the reasons that a module gives, as they stand in its source; what is filled in later is "..."."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Inapplicable":
            if node.args:
                yield from _texts(node.args[0])
        elif isinstance(node, ast.FunctionDef) and node.name in SPEAKING:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield from _texts(inner.value)


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _texts(value)


@cache
def examples() -> Mapping[str, Context]:
    """Return two workloads to show choices for, by name: one network on a card, and on a CPU."""
    return {
        "a recent NVIDIA card with 16 cores": _context("cuda:0", 16),
        "a CPU with 8 cores": _context("cpu", 8),
    }


def _context(device: str, cores: int) -> Context:
    facts = Facts(
        device=device,
        device_name="an example",
        default_threads=cores,
        native_bf16=True,
        native_fp16=device != "cpu",
        capability=None if device == "cpu" else (9, 0),
        dataset_length=50_000,
        cache_sample_bytes=4096,
        threads=1,
        convolution_ranks=(4,),
        batchnorm=True,
        chain="blocks",
        chain_length=6,
        chain_kind="blocks",
        compile_refused=None,
        inplace="all",
        optimizer_impls=("foreach", "fused"),
        sample_load_s=1e-3,
        sample_compute_s=1e-3,
    )
    machine = Machine(
        cpu="an example",
        usable_cores=float(cores),
        memory_bytes=64 * GIB,
        available_bytes=48 * GIB,
        shm_free_bytes=16 * GIB,
        load=0.0,
        python="3.11",
    )
    asked = frozenset(option.name for option in OPTIONS.values() if option.opt_in)
    return Context(facts=facts, machine=machine, baseline={"batch_size": 64}, allowed=asked, host_bytes=32 * GIB)
