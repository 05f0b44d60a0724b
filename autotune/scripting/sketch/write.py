"""The file that `autotune init` writes."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from autotune.scripting.optimizers import updated_by
from autotune.scripting.sketch.copied import copied
from autotune.scripting.sketch.expressions import Constructions, Unseen, Writer
from autotune.scripting.sketch.rebuilt import rebuild
from autotune.scripting.sketch.step import WHOLE, StepWatch
from autotune.scripting.trial import keep, script_of
from autotune.scripting.watch import MIN_UPDATES
from autotune.workload.package import Place, place_of
from autotune.workload.static import look

MAX_LINES_SHOWN = 30  # of the script's loop, where its step is left to a person
BY_CLOSURE = f"the script gives its optimizer a closure, which makes passes of its own: {WHOLE}"


def sketch_script(spec: TrialSpec, progress: Callable[..., None]) -> dict[str, Any]:
    """Run a few steps of the script and return the text of the workload's file.

    "missing" is what a person completes in it, "left_out" what the script does and it does not, in words.
    """
    script = Path(spec.source.script)
    place = place_of(script.resolve())
    changes, constructions = Changes(), Constructions()
    driver = Driver(script_of(spec.source), Plan(), device_named(spec.device))
    keep(driver)
    seen = look(script)
    importable = seen.trains is None and seen.parses_arguments is None and script.stem.isidentifier()
    writer = Writer(constructions, script.stem if importable else "")
    watch = StepWatch(driver.models.models, writer)
    hosts: dict[int, DataLoader[Any]] = {}
    answer, forward = driver.loaders.ask, driver.models.compute
    updates = 0

    def ask(batches: Batches) -> Any:
        number = batches.seen.root.number
        training = spec.found is None or number == spec.found.loader
        if training:
            watch.asks()
        batch = answer(batches) if answer is not None else next(batches.inner)
        hosts[number] = batches.loader
        if training:
            watch.fetched(batch)
        return batch

    def compute(plain: Any, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watch.forward_begins(model)
        output = forward(plain, model, args, kwargs)
        watch.forward_ends(args, kwargs, output)
        return output

    driver.loaders.ask, driver.models.compute = ask, compute
    constructions.install(changes)
    driver.install()
    watch.install(changes)
    progress("first step", {})

    def enough() -> bool:
        nonlocal updates
        if driver.updates.total() > updates:  # it is asked before backward passes, too
            updates = driver.updates.total()
            watch.updated()
        return updates >= MIN_UPDATES

    try:
        try:
            if not driver.watch(enough) and not driver.updates:
                raise ScriptError(f"{script.name} ended without an update of any optimizer")
        finally:
            driver.close()
        return _Sketch(spec, driver, writer, watch, hosts).write(place)
    finally:
        changes.undo()


class _Sketch:
    """Puts the parts together; what does not show becomes a function that says what to fill in."""

    def __init__(
        self, spec: TrialSpec, driver: Driver, writer: Writer, watch: StepWatch, hosts: Mapping[int, DataLoader[Any]]
    ) -> None:
        self._spec, self._driver, self._writer, self._watch, self._hosts = spec, driver, writer, watch, hosts
        self._script = Path(spec.source.script)
        self._missing: list[str] = []
        self._left_out: list[str] = []
        """what the script does and the file does not"""

    def write(self, place: Place) -> dict[str, Any]:
        parts = [self._model(), self._dataset(), self._optimizer(), self._step()]
        workload = self._workload()
        copies = ""
        if self._writer.names and not self._writer.script:
            copies = copied(self._script, self._writer.names, self._variable)
        imports = [f"import {name}" for name in sorted({"autotune", "torch", *self._writer.imports})]
        own = [name for name in sorted(self._writer.imports) if place.has(name)][:1]  # one tells where the file belongs
        if self._writer.names and self._writer.script:
            own = [self._writer.script]
        imports += [place.importing(name) for name in own]
        head = f'"""The workload of {self._script.name}, as it was seen while that ran.\n\n'
        if self._left_out:
            head += "What the script does and this does not is marked TODO.\n\n"
        if self._missing:
            head += f"To complete: {', '.join(self._missing)}. Then: "
        command = f"autotune search {self._script.stem}_tune.py"
        head += f'{command}\n"""\n\n' + "\n".join(imports)
        text = "\n\n\n".join(filter(None, [head, copies, *parts, workload])) + "\n"
        return {"text": text, "missing": self._missing, "left_out": self._left_out}

    def _model(self) -> str:
        models = self._driver.models.models or [nn.Identity()]
        model = models[0] if len(models) == 1 else nn.ModuleList(models)
        what = f"the {type(model).__name__} that {self._script.name} trains"
        if len(models) > 1:
            what = f"the {len(models)} models in one module"
        written = self._function("build_model()", model, what)
        head, _, code = written.partition("\n    return ")
        looks = [self._watch.looks[number] for number in sorted(self._watch.looks)]
        lines, notes = rebuild(code, looks, model, self._writer) if code and looks else ([], [])
        if not lines and not notes:
            return written
        return "\n    ".join([head, f"built = {code}", *lines, *self._todo("the model", notes), "return built"])

    def _dataset(self) -> str:
        host, where = self._host()
        if host is None:
            return self._left_to_you("build_dataset()", "the script has no DataLoader: it makes its batches itself")
        return self._function("build_dataset()", host.dataset, f"the {type(host.dataset).__name__} of {where}")

    def _optimizer(self) -> str:
        optimizers = self._driver.optimizers.optimizers
        head = "build_optimizer(parameters)"
        if len(optimizers) != 1:
            notes = self._todo("the optimizers", self._schedules())
            return self._left_to_you(head, f"the script has {len(optimizers)} optimizers", notes)
        optimizer: Optimizer = optimizers[0]
        notes = self._todo("the optimizer", [*self._schedules(), *self._groups(optimizer)])
        settings = {name: value for name, value in optimizer.defaults.items() if name in _parameters(type(optimizer))}
        try:
            call = self._writer.call(type(optimizer), ((), settings))
        except Unseen as error:
            return self._left_to_you(head, f"{type(optimizer).__name__}: {error}", notes)
        call = call.replace("(", "(parameters, ", 1).replace(", )", ")")
        return "\n    ".join([f"def {head}:", *notes, f"return {call}"])

    def _schedules(self) -> Iterator[str]:
        if self._watch.around.schedules:
            names = ", ".join(self._watch.around.schedules)
            yield f"the script changes its learning rate by {names}; the steps of a workload have one rate"

    def _groups(self, optimizer: Optimizer) -> Iterator[str]:
        """Yield how the optimizer differs from one of its class over all parameters with its defaults."""
        groups = optimizer.param_groups
        if len(groups) > 1:
            yield f"the script's has {len(groups)} groups of parameters, this one has one"
        for name, usual in () if self._watch.around.schedules else optimizer.defaults.items():
            values = list(dict.fromkeys(repr(group.get(name)) for group in groups))
            if values != [repr(usual)]:
                yield f"{name} is {' or '.join(values)} in the script, by group or by its loop, and here {usual!r}"
        trained = {item for model in self._driver.models.models for item in model.parameters() if item.requires_grad}
        held = {item for item in updated_by([optimizer]) if item.requires_grad}
        if trained - held:
            yield f"the script's updates {len(trained & held)} of {len(trained)} trainable parameters, this one all"
        if held - trained and self._driver.models.models:
            yield f"the script's has {len(held - trained)} tensors beside the parameters of the model"

    def _step(self) -> str:
        watch = self._watch
        changes = watch.around.gradients(self._driver.optimizers.optimizers)
        notes = self._todo("the step", (f"{change}; {WHOLE}" for change in changes))
        trouble = BY_CLOSURE if self._driver.optimizers.given_closure else watch.trouble
        head = "training_step(model, batch)"
        if watch.code and trouble != BY_CLOSURE:
            return "\n    ".join([f"def {head}:", *notes, *watch.code])
        lines = self._script.read_text(encoding="utf-8").splitlines()
        loop = [f"# {line}".rstrip() for line in _loop_around(lines, watch.line)]
        wanted = "the loss"
        if self._accumulates:
            wanted = f"the loss of one batch; it is divided by the {watch.passes} of an update after that"
        return self._left_to_you(head, f"{trouble}; return {wanted}", [*notes, *loop])

    @property
    def _accumulates(self) -> bool:
        return self._watch.passes > 1 and not self._watch.several

    def _workload(self) -> str:
        host, _ = self._host()
        lines = [
            "model=build_model",
            "dataset=build_dataset",
            "optimizer=build_optimizer",
            "training_step=training_step",
        ]
        notes = []
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
            notes.append("the script gives its loader a sampler of its own: sampler=lambda dataset: ...")
        if (norm := self._watch.around.clip_norm(self._driver.optimizers.optimizers)) is not None:
            lines.append(f"clip_norm={self._writer.expression(norm)}")
        notes += [f"the script sets {said}" for said in self._watch.around.settings.by_option.values()]
        notes += self._watch.around.left_out
        lines += self._todo("the workload", notes)
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
        around = self._watch.around
        given = {**self._spec.baseline}
        if self._accumulates:
            given["accumulation"] = self._watch.passes
        if around.precision is not None:
            given["precision"] = around.precision
        if "channels_last" in around.settings.refusals(self._driver.models.models, []):
            given["channels_last"] = True
        return {name: value for name, value in given.items() if name == "batch_size" or value != OPTIONS[name].default}

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

    def _left_to_you(self, head: str, why: str, comments: Sequence[str] = ()) -> str:
        self._missing.append(head.partition("(")[0])
        return "\n    ".join([f"def {head}:", *comments, f"raise NotImplementedError({why!r})"])

    def _todo(self, where: str, notes: Iterable[str]) -> list[str]:
        """Return comments on what is left out, which is also said on the screen."""
        found = list(notes)
        self._left_out += [f"{where}: {note}" for note in found]
        return [f"# TODO: {note}" for note in found]


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
