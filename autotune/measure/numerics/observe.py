"""One run over the fixed batches: first gradients, losses, and how far each parameter moved. All ends on the host."""

from __future__ import annotations

import copy
import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from autotune.batches import map_tensors
from autotune.config import Config
from autotune.measure.numerics.quiet import batch_norms, quiet
from autotune.measure.numerics.samples import FixedBatches, Unchecked
from autotune.measure.numerics.vectors import dense, distance
from autotune.measure.training import Training, seed_all
from autotune.workload import Workload

MAX_SKIPS = 24  # a scaler that starts at 2**16 has come down to 2**-8 by then


class Overflow(Exception):
    """The gradient scaler found no scale at which an update can be made."""


@dataclass(kw_only=True)
class Observed:
    """What one run did."""

    double: bool = False
    """whether it ran in float64"""
    losses: list[float] = field(default_factory=list)
    """of each step"""
    gradients: dict[str, Tensor] = field(default_factory=dict)
    """of the first update by parameter, before clipping, on the host"""
    moved: dict[str, float] = field(default_factory=dict)
    """norm of what all steps together did to each parameter"""
    end_state: dict[str, Any] = field(default_factory=dict)
    """the state_dict after the steps, where it was asked for"""
    skipped: int = 0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all runs of one comparison share."""

    workload: Workload
    batches: FixedBatches
    steps: int
    device: str
    seed: int
    fixed_statistics: bool = False
    """BatchNorm normalises with statistics taken beforehand: those of a batch depend on how it is divided"""


def initial_state(bench: Bench, config: Config) -> dict[str, Any]:
    """Return the state_dict that every run starts from, on the host."""
    training = Training(bench.workload, config, device=bench.device, seed=bench.seed)
    with training.tuned:
        if bench.fixed_statistics:
            _take_statistics(training, bench.batches)
        state = training.model.state_dict()
        return {name: _to_host(item) for name, item in state.items()}


def observe(
    bench: Bench,
    config: Config,
    state: Mapping[str, Any],
    *,
    first: int = 0,
    steps: int | None = None,
    double: bool = False,
    noise: float = 0.0,
    keep_end: bool = False,
    salt: int = 0,
) -> Observed:
    """Train from `state` on the fixed batches under `config`.

    Args:
        first: the batch to begin with.
        steps: how many; None: as many as the bench says.
        double: in float64.
        noise: change what each layer returns by up to this share, at random: what rounding alone can do.
        keep_end: also return the state after the steps.
        salt: draws other random numbers, where any are left.

    Raises:
        Overflow: no update could be made in fp16.
        Unchecked: the runs cannot start from the same weights, or the batches cannot be divided.
    """
    workload = _in_double(bench.workload) if double else bench.workload
    training = Training(workload, config, device=bench.device, seed=bench.seed)
    found = Observed(double=double)
    with training.tuned:
        _start_from(training.model, state)
        if bench.fixed_statistics:
            for module in batch_norms(training.model):
                module.eval()
        if noise:
            _add_noise(training.model, noise, bench.seed)
        if double:
            training.model.double()
        with quiet(training.model), _default_dtype(torch.float64 if double else torch.get_default_dtype()):
            run = _OwnSteps(training, found) if workload.own_step else _Steps(training, found, micro_batches(config))
            for index in range(first, first + (bench.steps if steps is None else steps)):
                run.step(bench.batches, index, seed=bench.seed + 1 + index + salt, double=double)
        found.moved = {
            name: distance(item.detach().cpu(), state[name])
            for name, item in training.model.named_parameters()
            if name in state
        }
        if keep_end:
            found.end_state = {name: _to_host(item) for name, item in training.model.state_dict().items()}
        found.gradients = {name: item.cpu() for name, item in found.gradients.items()}
    del training, run
    gc.collect()  # models hold cycles, and two at once may not fit
    return found


def micro_batches(config: Config) -> int:
    """Return how many backward passes an optimizer step has."""
    return int(config.value("accumulation")) if "accumulation" in config else 1


class _Steps:
    """Steps whose backward pass and update are ours."""

    def __init__(self, training: Training, found: Observed, parts: int) -> None:
        self._training, self._found, self._parts = training, found, parts

    def step(self, batches: FixedBatches, index: int, *, seed: int, double: bool) -> None:
        """Train on one batch, again and again while the gradient scaler finds an overflow."""
        while True:
            losses, updated = [], False
            for part in batches.parts(index, self._parts):
                seed_all(seed)
                losses.append(self._training.backward(_placed(self._training, part, double)).double())
                if not self._found.losses and len(losses) == self._parts:
                    self._found.gradients = self._gradients()
                updated = self._training.update()
            if updated:
                break
            self._found.skipped += 1
            if self._found.skipped > MAX_SKIPS:
                raise Overflow
        self._found.losses.append(float(torch.stack(losses).mean()))

    def _gradients(self) -> dict[str, Tensor]:
        scaler = self._training.tuned.state_dict().get("scaler")
        scale = float(scaler["scale"]) if scaler else 1.0
        return {
            name: dense(item.grad) / scale
            for name, item in self._training.model.named_parameters()
            if item.grad is not None
        }


class _OwnSteps:
    """Steps of the user's own: gradients are seen when each optimizer first uses them."""

    def __init__(self, training: Training, found: Observed) -> None:
        self._training, self._found = training, found
        names = {id(item): name for name, item in training.model.named_parameters()}
        for optimizer in training.optimizers:
            optimizer.register_step_pre_hook(_Look(names, found).look)

    def step(self, batches: FixedBatches, index: int, *, seed: int, double: bool) -> None:
        (batch,) = batches.parts(index, 1)
        seed_all(seed)
        loss = self._training.step(_placed(self._training, batch, double))
        if loss is not None:
            self._found.losses.append(float(loss))


class _Look:
    """Keeps the gradients of one optimizer's parameters at its first step."""

    def __init__(self, names: Mapping[int, str], found: Observed) -> None:
        self._names, self._found, self._done = names, found, False

    def look(self, optimizer: Optimizer, *_: Any) -> None:
        if self._done:
            return
        self._done = True
        for group in optimizer.param_groups:
            for item in group["params"]:
                if item.grad is not None and id(item) in self._names:
                    self._found.gradients[self._names[id(item)]] = dense(item.grad)


def _placed(training: Training, batch: Any, double: bool) -> Any:
    placed = training.loader.place(batch)
    if not double:
        return placed
    return map_tensors(placed, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def _in_double(workload: Workload) -> Workload:
    """Return the workload with a loss module (class weights!) in float64."""
    if not isinstance(workload.loss, nn.Module):
        return workload
    return replace(workload, loss=copy.deepcopy(workload.loss).double())


def _to_host(item: Any) -> Any:
    return item.detach().to("cpu", copy=True) if isinstance(item, Tensor) else copy.deepcopy(item)


def _start_from(model: nn.Module, state: Mapping[str, Any]) -> None:
    try:
        model.load_state_dict(copy.copy(dict(state)))
    except (RuntimeError, KeyError, ValueError) as error:
        raise Unchecked(f"the model built again does not take the state of the first: {error}") from error


def _add_noise(model: nn.Module, share: float, seed: int) -> None:
    """Let each layer's output be off as if it were rounded: independently, up to `share` of each value."""
    generators: dict[torch.device, torch.Generator] = {}

    def rounded(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        generator = generators.get(tensor.device)
        if generator is None:
            generator = generators[tensor.device] = torch.Generator(tensor.device).manual_seed(seed)
        noise = torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=torch.float32) * 2 - 1
        return tensor * (1 + share * noise).to(tensor.dtype)

    for module in model.modules():
        if next(module.children(), None) is None:
            module.register_forward_hook(lambda module, inputs, output: map_tensors(output, rounded))


def _take_statistics(training: Training, batches: FixedBatches) -> None:
    """Let BatchNorm take the first batch's statistics for its own."""
    modules: list[Any] = batch_norms(training.model)
    momenta = [module.momentum for module in modules]
    for module in modules:
        module.momentum = 1.0
    with torch.no_grad(), quiet(training.model):
        seed_all(0)
        training.loss_step(training.model, training.loader.place(batches.parts(0, 1)[0]))
    for module, momentum in zip(modules, momenta, strict=True):
        module.momentum = momentum


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let the user's own step make its tensors in this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def finite(found: Observed) -> bool:
    """Whether every loss is a number."""
    return all(map(math.isfinite, found.losses))
