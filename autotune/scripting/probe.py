"""The probe of a script: runs it for a few steps and returns the same facts as of a workload."""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from autotune.batches import clone, describe, nbytes, shapes, tensors
from autotune.compiling import own_compile, refuse_torchscript, so_far, why_no_compiler
from autotune.device import Device, device_named, why_allocator_is_set
from autotune.errors import WorkloadError
from autotune.facts import Facts, ScriptFacts
from autotune.generators import generators_in
from autotune.options import OPTIONS
from autotune.plan import Plan
from autotune.probing.data import (
    SHAPES_SEEN,
    epoch_length,
    on_accelerator,
    take_batches,
    why_batch_is_fixed,
    why_fork_only,
    why_no_workers,
)
from autotune.probing.device_facts import device_facts
from autotune.probing.habits import Habits, time_steps
from autotune.probing.model_facts import model_facts
from autotune.probing.optimizers import probe_implementations
from autotune.random_numbers import kept_random_numbers
from autotune.records import TrialSpec
from autotune.scripting.carried import NO_LOADER, NO_MODEL, not_carried_out
from autotune.scripting.changes import Changes
from autotune.scripting.driver import Driver
from autotune.scripting.loaders import SIGNATURE, planned_arguments, why_batches_are_given, yields_batches
from autotune.scripting.models import trained_among, trained_by
from autotune.scripting.placed import visible_cards, why_another_card, why_elsewhere
from autotune.scripting.probe_chain import probe_chain
from autotune.scripting.settings import Settings
from autotune.scripting.training import ScriptTraining
from autotune.scripting.trial import keep, script_of
from autotune.scripting.watch import how_it_trains, watch
from autotune.workload.script import brief
from autotune.workload.static import look

TOO_SHORT_TO_COMPILE = "the script trains too few steps for that; let it train longer: more epochs, or more data"
SIZES_SEEN = 4096  # batches of a batch sampler of the script's own: all of an epoch, as a rule, whatever their order
CACHE_REFUSED = "it needs a Workload: whether the samples of a script may be kept is not looked at"


def probe_script(spec: TrialSpec, progress: Callable[..., None], seconds: dict[str, float]) -> Facts:
    """Return what this script trains and how.

    Raises:
        ScriptError: it failed, or trained nothing that could be seen.
    """
    progress("device", {})
    device = device_named(spec.device)
    free_bytes = device.free_bytes()  # before the script builds anything there
    cards = visible_cards()
    changes, settings = Changes(), Settings()
    settings.install(changes)
    driver = Driver(script_of(spec.source), Plan(), device)
    keep(driver)
    driver.install()
    try:
        progress("first step", {})
        script = Path(spec.source.script)
        watch(driver, script)
        another = why_another_card(script.name, cards, visible_cards()) if device.is_accelerator else None
        if another is not None:
            raise another
        for model in driver.models.models:
            refuse_torchscript(model)
        trained = trained_by(driver.models.models, driver.optimizers.optimizers)
        if (elsewhere := why_elsewhere(script.name, trained.values(), device.torch)) is not None:
            raise elsewhere
        found = how_it_trains(driver, sys.modules["__main__"])
        driver.hold(found)
        return _facts(driver, settings, device, spec, free_bytes)
    finally:
        driver.close()
        changes.undo()


def _facts(driver: Driver, settings: Settings, device: Device, spec: TrialSpec, free_bytes: int | None) -> Facts:
    found = driver.found
    assert found is not None
    training = _training(driver, found)
    host = training.host
    length = None if host is None else epoch_length(host)
    batches, load_s = ([None], 0.0) if host is None else _first_batches(training)
    compute_s = time_steps(training.step, batches, device)
    if host is not None and host.num_workers:
        load_s = _load_s(training)
    batch = batches[0]
    own_autocast, own_scaler = settings.own_autocast, settings.own_scaler
    graphs = so_far().graphs > driver.compiled_before.graphs
    habits = Habits.of(training, device, batch)
    threads = threading.active_count() - 1
    size = training.batch_size
    per_step = max(1, size)
    models = driver.models.models
    refused = settings.refusals(models, driver.optimizers.optimizers)
    if not models:  # as where the script compiles a function that calls one
        refused |= dict.fromkeys(("precision", "channels_last", "compile_mode"), NO_MODEL)
    facts = Facts(
        **device_facts(device, free_bytes),
        allocator_refused=why_allocator_is_set(),
        dataset_length=length,
        drop_last=training.workload.drop_last,
        iterable=isinstance(training.dataset, IterableDataset),
        batch_structure=describe(batch) if host is not None else "made by the script",
        sample_bytes=nbytes(batch) // per_step,
        tensors_per_batch=sum(1 for _ in tensors(batch)),
        on_accelerator=on_accelerator(batch),
        workers_refused=_why_no_workers(training, batch),
        start_method=multiprocessing.get_start_method(),
        fork_only=None if host is None else _why_fork_only(training, Path(spec.source.script)),
        threads=threads,
        cache_refused=CACHE_REFUSED,
        variable_shapes=len({tuple(shape[1:] for shape in shapes(item)) for item in batches}) > 1,
        seeded_generators=() if host is None else generators_in(training.dataset),
        **_model_facts(training),
        optimizer=", ".join(training.optimizer_kinds),
        step=_in_words(found),
        own_autocast=own_autocast,
        own_scaler=own_scaler,
        compiled=graphs or own_compile(training.model),
        draws_random=habits.draws_random,
        synchronizes=habits.synchronizes,
        moves_parameters=habits.moves_parameters,
        script=found,
        not_carried_out=not_carried_out(no_loader=_why_no_loader(training), own_scaler=own_scaler),
        refused=refused,
        build_s=driver.first_batch_s,
        sample_load_s=load_s / per_step,
        sample_compute_s=compute_s / per_step,
        probe_batch=size,
        baseline={**_baseline(training), **spec.baseline},
    )
    # last, what may end the script: of one that has ended, neither optimizers nor modules are left to ask
    implementations, implementations_refused = probe_implementations(training)
    chain, chain_refused = probe_chain(training, batch)
    return replace(
        facts,
        optimizer_impls=implementations,
        optimizer_impls_refused=implementations_refused,
        chain=None if chain is None else chain.path or type(chain.container).__name__,
        chain_length=0 if chain is None else len(chain),
        chain_kind="" if chain is None else chain.kind,
        chain_refused=chain_refused,
        compile_refused=TOO_SHORT_TO_COMPILE if driver.runs > 1 else why_no_compiler(device.type),
        fixed_batch=_why_batch_is_fixed(training, batch, length),
    )


def _model_facts(training: ScriptTraining) -> dict[str, Any]:
    """Return the facts about all models that are called, and of what is trainable those about what is trained."""
    driver = training.driver
    trained = model_facts(nn.ModuleList(trained_among(driver.models.models, driver.optimizers.optimizers)))
    of_trained = {name: trained[name] for name in ("trainable_parameters", "trained_formats")}
    return {**model_facts(training.model), **of_trained, "model": _names(driver.models.models)}


def _names(models: list[nn.Module]) -> str:
    return " and ".join(dict.fromkeys(type(model).__name__ for model in models)) or "no nn.Module"


def _training(driver: Driver, found: ScriptFacts) -> ScriptTraining:
    """Return the training under what the script itself sets."""
    from autotune.config import Config

    size = None if driver.request is None else _batch_size(driver.request.loader)
    return ScriptTraining(driver, Config(batch_size=size or 1))


def _batch_size(loader: DataLoader[Any]) -> int | None:
    if loader.batch_size is not None:
        return loader.batch_size
    batch_sampler: Any = loader.batch_sampler
    if batch_sampler is None and yields_batches(loader.sampler):
        batch_sampler = loader.sampler
    size = getattr(batch_sampler, "batch_size", None)
    return size if isinstance(size, int) and size > 0 else _drawn_size(batch_sampler)


def _drawn_size(batch_sampler: Any) -> int | None:
    """Return how many samples a batch sampler of the script's own puts in a batch, in the mean; None: unknown."""
    if batch_sampler is None or not hasattr(batch_sampler, "__len__"):
        return None  # one that yields without an end may be a generator, which would lose what is looked at
    try:
        with kept_random_numbers():
            # no further than it says: what it does at its end, as counting epochs, is the script's
            seen = min(len(batch_sampler), SIZES_SEEN)
            sizes = [len(batch) for batch in itertools.islice(iter(batch_sampler), seen)]
    except Exception:
        return None  # the script fails by it itself, or its batches are no lists of samples
    return round(sum(sizes) / len(sizes)) or None if sizes else None


def _baseline(training: ScriptTraining) -> dict[str, Any]:
    """Return what the script sets of the options: the arguments of its loader."""
    found: dict[str, Any] = {"batch_size": training.batch_size}
    for name, option in OPTIONS.items():
        if training.host is None or name not in SIGNATURE.parameters or name == "batch_size":
            continue
        value = training.arguments.get(name, getattr(training.host, name, None))
        if value is not None and option.check(value) is None:
            found[name] = value
    return found


def _first_batches(training: ScriptTraining) -> tuple[list[Any], float]:
    """Return the next few batches, and the seconds that one takes to load."""
    passes = itertools.repeat(training.loader.host, SHAPES_SEEN)  # the script may be held at the end of its epoch
    batches, load_s = take_batches(itertools.chain.from_iterable(passes))
    if not batches:
        raise WorkloadError("the training loader yields no batch", hint="Is the dataset empty?")
    return batches, load_s


def _load_s(training: ScriptTraining) -> float:
    """Return the seconds that one batch takes without workers: behind a queue it does not show."""
    arguments = {**training.arguments, "num_workers": 0}
    return take_batches(DataLoader(**planned_arguments(Plan(), arguments)))[1]


def _why_no_loader(training: ScriptTraining) -> str | None:
    return None if training.host is not None else training.found.no_loader or NO_LOADER


def _why_no_workers(training: ScriptTraining, batch: Any) -> str | None:
    if training.host is None:
        return _why_no_loader(training)
    return None if training.host.num_workers else why_no_workers(training, batch)


def _why_fork_only(training: ScriptTraining, script: Path) -> str | None:
    if not look(script).has_guard:
        return f"{script.name} has no `if __name__ == '__main__':`, and would train in each process that imports it"
    return why_fork_only(training)


def _why_batch_is_fixed(training: ScriptTraining, batch: Any, length: int | None) -> str | None:
    """Return why the batch size has no effect, or cannot be another; may end the script."""
    host, found = training.host, training.found
    if host is None:
        return f"{_why_no_loader(training)}; {found.size_of_step}"
    if found.beside:
        return f"{found.beside} is read in turn with that of {found.made_at or 'a library'}, and would keep its own"
    if (given := why_batches_are_given(training.arguments, found.made_at)) is not None:
        return given
    size = training.batch_size
    if size < 2:
        return None
    fixed = why_batch_is_fixed(training, batch, size, length)
    if fixed is not None:
        return fixed
    smaller = next(iter(training.make_loader(batch_size=max(1, min(size, length or size) // 2)).host))
    try:
        training.step(clone(batch))
        runs = training.driver.runs
    except Exception:
        return None  # of its own size, too: an earlier look has ended the script, and it does not run again
    try:
        training.step(smaller)
    except Exception as error:
        if training.driver.runs != runs:
            return None  # it had come to its end, and does not run again: not for the size
        return f"the script fails on a batch of another size: {brief(error)}"
    return None


def _in_words(found: ScriptFacts) -> str:
    if found.loader is None:
        words = "the script's own loop; a step ends with an optimizer's update"
        if found.no_loader:
            words += (
                f": {found.no_loader}. To be measured by its batches, it needs a Workload; `autotune init` writes most"
            )
    else:
        words = f"the script's own loop over the loader of {found.made_at or 'a library'}"
    if found.beside:
        words += f", in turn with {found.beside}"
    if found.batches_per_update > 1:
        words += f", an update every {found.batches_per_update} batches"
    if found.updates_per_step > 1:
        words += f", with {found.updates_per_step} updates of its optimizers in each"
    return words
