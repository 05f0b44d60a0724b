"""The file that `autotune init` writes."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from autotune.device import device_named
from autotune.errors import ScriptError
from autotune.options import OPTIONS
from autotune.plan import Plan
from autotune.records import TrialSpec
from autotune.scripting.changes import Changes
from autotune.scripting.driver import Driver
from autotune.scripting.loaders import Batches
from autotune.scripting.sketch.copied import copied
from autotune.scripting.sketch.expressions import Constructions, Unseen, Writer
from autotune.scripting.sketch.step import StepWatch
from autotune.scripting.trial import keep, script_of
from autotune.scripting.watch import MIN_UPDATES
from autotune.workload.static import look

MAX_LINES_SHOWN = 30  # of the script's loop, where its step is left to a person
BY_CLOSURE = (
    "the script gives its optimizer a closure, which makes passes of its own: take training_step(tuned, model, batch), "
    "which makes the whole step"
)


def sketch_script(spec: TrialSpec, progress: Callable[..., None]) -> dict[str, Any]:
    """Run a few steps of the script and return {"text": the workload's file, "missing": what a person completes}."""
    script = Path(spec.source.script)
    changes, constructions = Changes(), Constructions()
    driver = Driver(script_of(spec.source), Plan(), device_named(spec.device))
    keep(driver)
    seen = look(script)
    importable = seen.trains is None and seen.parses_arguments is None and script.stem.isidentifier()
    writer = Writer(constructions, script.stem if importable else "")
    watch = StepWatch(driver.models.models, writer)
    hosts: dict[int, DataLoader[Any]] = {}
    answer = driver.loaders.ask

    def ask(batches: Batches) -> Any:
        batch = answer(batches) if answer is not None else next(batches.inner)
        number = batches.seen.root.number
        hosts[number] = batches.loader
        if spec.found is None or number == spec.found.loader:
            watch.fetched(batch)
        return batch

    driver.loaders.ask = ask
    constructions.install(changes)
    driver.install()
    watch.install(changes)
    progress("first step", {})

    def enough() -> bool:
        watch.updated()
        return driver.updates.total() >= MIN_UPDATES

    try:
        if not driver.watch(enough) and not driver.updates:
            raise ScriptError(f"{script.name} ended without an update of any optimizer")
        return _Sketch(spec, driver, writer, watch, hosts).write()
    finally:
        driver.close()
        changes.undo()


class _Sketch:
    """Puts the parts together; what does not show becomes a function that says what to fill in."""

    def __init__(
        self, spec: TrialSpec, driver: Driver, writer: Writer, watch: StepWatch, hosts: Mapping[int, DataLoader[Any]]
    ) -> None:
        self._spec, self._driver, self._writer, self._watch, self._hosts = spec, driver, writer, watch, hosts
        self._script = Path(spec.source.script)
        self._missing: list[str] = []

    def write(self) -> dict[str, Any]:
        parts = [self._model(), self._dataset(), self._optimizer(), self._step()]
        workload = self._workload()
        copies = ""
        if self._writer.names and not self._writer.script:
            copies = copied(self._script, self._writer.names, self._variable)
        imports = sorted({"autotune", "torch", *self._writer.imports})
        if self._writer.names and self._writer.script:
            imports.append(self._writer.script)
        head = f'"""The workload of {self._script.name}, as it was seen while that ran.\n\n'
        if self._missing:
            head += f"To complete: {', '.join(self._missing)}. Then: "
        command = f"autotune search {self._script.stem}_tune.py"
        head += f'{command}\n"""\n\n' + "\n".join(f"import {name}" for name in dict.fromkeys(imports))
        return {"text": "\n\n\n".join(filter(None, [head, copies, *parts, workload])) + "\n", "missing": self._missing}

    def _model(self) -> str:
        models = self._driver.models.models
        if len(models) > 1:
            return self._function("build_model()", nn.ModuleList(models), f"the {len(models)} models in one module")
        model = models[0] if models else nn.Identity()
        return self._function("build_model()", model, f"the {type(model).__name__} that {self._script.name} trains")

    def _dataset(self) -> str:
        host, where = self._host()
        if host is None:
            return self._left_to_you("build_dataset()", "the script has no DataLoader: it makes its batches itself")
        return self._function("build_dataset()", host.dataset, f"the {type(host.dataset).__name__} of {where}")

    def _optimizer(self) -> str:
        optimizers = self._driver.optimizers.optimizers
        if len(optimizers) != 1:
            return self._left_to_you("build_optimizer(parameters)", f"the script has {len(optimizers)} optimizers")
        optimizer: Optimizer = optimizers[0]
        note = ""
        if len(optimizer.param_groups) > 1:
            note = f"    # the script has {len(optimizer.param_groups)} groups of parameters; this is one\n"
        settings = {name: value for name, value in optimizer.defaults.items() if name in _parameters(type(optimizer))}
        try:
            call = self._writer.call(type(optimizer), ((), settings))
        except Unseen as error:
            return self._left_to_you("build_optimizer(parameters)", f"{type(optimizer).__name__}: {error}")
        call = call.replace("(", "(parameters, ", 1).replace(", )", ")")
        return f"def build_optimizer(parameters):\n{note}    return {call}"

    def _step(self) -> str:
        trouble = BY_CLOSURE if self._driver.optimizers.given_closure else self._watch.trouble
        if self._watch.code and trouble != BY_CLOSURE:
            body = "\n".join(f"    {line}" for line in self._watch.code)
            return f"def training_step(model, batch):\n{body}"
        lines = self._script.read_text(encoding="utf-8").splitlines()
        loop = _loop_around(lines, self._watch.line)
        shown = "\n".join(f"    # {line}".rstrip() for line in loop)
        left = self._left_to_you("training_step(model, batch)", f"{trouble}; return the loss")
        return left.replace(":\n", f":\n{shown}\n", 1) if shown else left

    def _workload(self) -> str:
        host, _ = self._host()
        lines = [
            "model=build_model",
            "dataset=build_dataset",
            "optimizer=build_optimizer",
            "training_step=training_step",
        ]
        arguments: Mapping[str, Any] = {} if host is None else self._arguments()
        collate = arguments.get("collate_fn")
        if collate is not None:
            try:
                lines.append(f"collate_fn={self._writer.expression(collate)}")
            except Unseen:
                self._missing.append("collate_fn")
                lines.append("collate_fn=None,  # the script's own does not show")
        if host is not None and host.drop_last:
            lines.append("drop_last=True")
        if arguments.get("sampler") is not None or arguments.get("batch_sampler") is not None:
            lines.append("# the script gives its loader a sampler of its own: sampler=lambda dataset: ...")
        lines.append(f"baseline={self._baseline()!r}")
        body = "\n".join(f"    {line}" if line.startswith("#") or "  #" in line else f"    {line}," for line in lines)
        return f"workload = autotune.Workload(\n{body}\n)"

    def _variable(self, name: str) -> str:
        """Return the line that sets a variable of the script to its value."""
        try:
            return f"{name} = {self._writer.expression(getattr(sys.modules['__main__'], name))}"
        except (Unseen, AttributeError):
            self._missing.append(name)
            return f"{name} = None  # {self._script.name} sets it"

    def _baseline(self) -> dict[str, Any]:
        """Return what the script sets otherwise than PyTorch does, and the batch size."""
        given = self._spec.baseline.items()
        return {name: value for name, value in given if name == "batch_size" or value != OPTIONS[name].default}

    def _host(self) -> tuple[DataLoader[Any] | None, str]:
        found = self._spec.found
        if found is None or found.loader is None:
            return None, ""
        seen = self._driver.loaders.seen[found.loader]
        return self._hosts.get(found.loader), seen.made_at

    def _arguments(self) -> Mapping[str, Any]:
        assert self._spec.found is not None
        assert self._spec.found.loader is not None
        return self._driver.loaders.seen[self._spec.found.loader].arguments

    def _function(self, head: str, value: Any, what: str) -> str:
        imports, names = set(self._writer.imports), set(self._writer.names)
        try:
            return f"def {head}:\n    return {self._writer.expression(value)}"
        except Unseen as error:
            self._writer.imports, self._writer.names = imports, names
            return self._left_to_you(head, f"return {what}: how it is made does not show ({error})")

    def _left_to_you(self, head: str, why: str) -> str:
        self._missing.append(head.partition("(")[0])
        return f"def {head}:\n    raise NotImplementedError({why!r})"


def _parameters(kind: type) -> Mapping[str, Any]:
    return inspect.signature(kind).parameters


def _loop_around(lines: list[str], line: int) -> list[str]:
    """Return the innermost loop around a line of the script."""
    loops = [
        node
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.For | ast.While) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not loops:
        return []
    loop = max(loops, key=lambda node: node.lineno)
    return lines[loop.lineno - 1 : loop.end_lineno][:MAX_LINES_SHOWN]
