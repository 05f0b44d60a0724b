"""Tuned: the training objects with a config applied. Used by trials and by people alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from autotune.accumulating import Accumulation, counter_for, with_ends
from autotune.affinity import KeepTo, keep_to
from autotune.batches import move
from autotune.caching import Caches
from autotune.config import Config
from autotune.device import device_named
from autotune.implementations import built_with, skipped
from autotune.machine import share_cores
from autotune.plan import plan_for
from autotune.prefetching import Ahead, Staged, on_host
from autotune.samples import epoch_batches

M = TypeVar("M", bound=nn.Module)


class TunedLoader:
    """Batches of a loader, placed on the device and transformed there.

    Everything that the loader itself has (`dataset`, `sampler`, ...) is there too.
    """

    def __init__(
        self,
        host: Iterable[Any],
        place: Callable[[Any], Any],
        begin: Callable[[int, bool], None] | None = None,
        batch_size: int = 1,
        ahead: Callable[[Iterable[Any]], Iterable[Any]] | None = None,
    ) -> None:
        self.host = host
        """the loader whose batches still lie in host memory"""
        self.place = place
        """hands one item of `source` over to the step, on the device"""
        self._begin = begin
        """told of each batch how many samples it has, and whether it is the last; None: nobody needs to know"""
        self._batch_size = batch_size
        self.ahead = ahead
        """lets batches of a loader begin their way to the device early; None: each begins when it is placed"""
        self.source = host if ahead is None else ahead(host)
        """the host's batches, or these on their way to the device"""

    def over(self, host: Iterable[Any]) -> TunedLoader:
        """Return other host batches on the same way to the device."""
        return TunedLoader(host, self.place, ahead=self.ahead)

    def __iter__(self) -> Iterator[Any]:
        if self._begin is None:
            for item in self.source:
                yield self.place(item)
            return
        count = counter_for(self.host, self._batch_size)
        length = epoch_batches(self.host) if isinstance(self.host, DataLoader) else None
        for index, (batch, last) in enumerate(with_ends(self.source, length)):
            self._begin(count(on_host(batch), index), last)
            yield self.place(batch)

    def __len__(self) -> int:
        return len(self.host)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "host":  # not there yet while being unpickled
            raise AttributeError(name)
        return getattr(self.host, name)


class Tuned:
    """Applies a config to the objects of a training loop.

    With `Config()`, whose every option is PyTorch's default, a loop through it computes bit for bit what it computes
    without. Never changes state_dict keys.

        tuned = Tuned(Config.load("best.toml"))
        model = tuned.model(model)
        optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=1e-3)
        for inputs, target in tuned.loader(dataset, batch_size=64, shuffle=True):
            with tuned.autocast():
                loss = criterion(model(inputs), target)
            tuned.backward(loss)
            tuned.step(optimizer)

    Where the config accumulates gradients, `tuned.step` updates after so many batches, and at the end of an epoch.
    """

    def __init__(self, config: Config | None = None, *, device: str = "", checkpoint_blocks: str | None = None) -> None:
        """Set the process-wide switches of the config; `restore()` or a with statement sets them back.

        Args:
            config: what to apply; None is PyTorch's defaults.
            device: as torch names it; empty is the best there is.
            checkpoint_blocks: module path of the blocks that may be recomputed; found by looking where None.

        Raises:
            UsageError: there is no such device.
        """
        self.config = config or Config()
        self.optimizers: list[Optimizer] = []
        """every optimizer made here, in order"""
        self.batch_transform: Callable[[Any], Any] | None = None
        """(batch on the device) -> batch, after each placement"""
        self.autocast_entered = 0
        self.caches = Caches()
        self._plan = plan_for(self.config, checkpoint_blocks)
        self._device = device_named(device)
        self._updated = True
        self._watched: WeakSet[Optimizer] = WeakSet()
        self._worker_cores: set[int] | None = None
        self._scaler: torch.amp.GradScaler | None = None
        if self._plan.scale_gradients:
            self._scaler = torch.amp.GradScaler(self._device.type)
        self._accumulation = Accumulation(self._plan.accumulation) if self._plan.accumulation > 1 else None
        # first of all, before anything is on the device
        self._restore = [self._device.expand_segments()] if self._plan.expandable_segments else []
        self._restore += [switch() for switch in self._plan.switches]

    @property
    def device(self) -> torch.device:
        return self._device.torch

    @property
    def compiles(self) -> bool:
        """Whether the config compiles the model, at its first step."""
        return self._plan.compiles

    def model(self, model: M) -> M:
        """Return the model on its device, with layout, checkpointing and compiling applied; it is changed in place."""
        model = model.to(self.device)
        for transform in self._plan.model_transforms:
            model = transform(model)  # type: ignore[assignment]
        return model

    def optimizer(self, factory: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return `factory(*args, **kwargs)`, a class or a function; what it builds has the config's implementation."""
        with built_with(self._plan.optimizer):
            made = factory(*args, **kwargs)
        for optimizer in made if isinstance(made, list | tuple) else [made]:
            self.optimizers.append(optimizer)
        return made

    def loader(self, dataset: Any, **arguments: Any) -> TunedLoader:
        """Return batches on the device: a DataLoader over `dataset` with these arguments, as the config changes them.

        Arguments that are options (batch_size, num_workers, ...) are what holds where the config says nothing.
        """
        merged = self._plan.loader_arguments(arguments)
        if merged.get("batch_sampler") is not None or arguments.get("batch_size", 1) is None:
            # the sampler decides, or the dataset yields whole batches
            merged["batch_size"] = arguments.get("batch_size", 1)
            merged["drop_last"] = arguments.get("drop_last", False)
        if self._plan.cache_dataset:
            dataset = self.caches.over(dataset)
        self._keep_some(dataset, merged, arguments)
        if self._plan.worker_affinity and merged.get("num_workers"):
            merged["worker_init_fn"] = self._share_cores(merged["num_workers"], merged.get("worker_init_fn"))
        return self.batches(DataLoader(dataset, **merged))

    def _keep_some(self, dataset: Any, merged: dict[str, Any], given: dict[str, Any]) -> None:
        """Keep the last batch where nothing else is there: the config was made for other data."""
        known: Any = merged.get("sampler") if merged.get("sampler") is not None else dataset
        if not merged.get("drop_last") or given.get("drop_last") or not hasattr(known, "__len__"):
            return
        if len(known) < merged.get("batch_size", 1):
            warnings.warn(
                f"drop_last would leave out all of the {len(known)} samples, so the last batch is kept", stacklevel=3
            )
            merged["drop_last"] = False

    def _share_cores(self, workers: int, init: Callable[[int], None] | None) -> Callable[[int], None] | None:
        """Keep this process to its own cores from now on; return what keeps a worker to the others."""
        if self._worker_cores is None:
            shared = share_cores(workers, accelerator=self._device.is_accelerator)
            if shared is None:
                return init
            training, self._worker_cores = shared
            self._restore.append(keep_to(training))
        return KeepTo(frozenset(self._worker_cores), init)

    def batches(self, loader: Iterable[Any]) -> TunedLoader:
        """Return the batches of a loader of your own, on the device."""
        copies = self._device.copies() if self._plan.device_prefetch else None
        return TunedLoader(
            loader,
            self.place,
            None if self._accumulation is None else self.begin_batch,
            int(self.config.value("batch_size")),
            ahead=None if copies is None else partial(Ahead, copies=copies, move=self._move),
        )

    def begin_batch(self, samples: int, last: bool = False) -> None:
        """Say how many samples the next batch has and whether it ends an epoch, where no loader made here does."""
        if self._accumulation is not None:
            self._accumulation.begin(samples, last)

    def place(self, batch: Any) -> Any:
        """Return one batch on the device, laid out and transformed."""
        batch = batch.take() if isinstance(batch, Staged) else self._move(batch)
        return batch if self.batch_transform is None else self.batch_transform(batch)

    def _move(self, batch: Any) -> Any:
        return move(
            batch,
            self.device,
            non_blocking=self._plan.non_blocking,
            transforms=self._plan.tensor_transforms,
        )

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which to compute model and loss."""
        self.autocast_entered += 1
        if self._plan.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self._device.type, getattr(torch, self._plan.autocast_dtype))

    def backward(self, loss: Tensor) -> None:
        """Compute gradients of the loss, a mean over samples: scaled where the precision needs it, weighed by its
        share of the update where several batches make one.
        """
        if self._accumulation is not None:
            loss = loss * self._accumulation.share()
        if self._scaler is not None:
            loss = self._scaler.scale(loss)
        loss.backward()

    def step(self, optimizers: Optimizer | Sequence[Optimizer], clip_norm: float | None = None) -> bool:
        """Clip, update and zero the gradients, where an update is due; return whether one happened.

        Args:
            optimizers: all that share the last backward pass.
            clip_norm: largest norm of each optimizer's gradients; None leaves them.
        """
        group = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
        if self._accumulation is not None:
            if not self._accumulation.add(group):
                return False
            self._accumulation.close(group)
        return self._update(group, clip_norm)

    def finish(self, optimizers: Optimizer | Sequence[Optimizer], clip_norm: float | None = None) -> bool:
        """Update with the batches left over at the end of an epoch, where no loader made here ends it.

        Returns False where no batch is left over, or the update was skipped.
        """
        group = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
        left = self._accumulation is not None and self._accumulation.close(group)
        return left and self._update(group, clip_norm)

    def _update(self, group: Sequence[Optimizer], clip_norm: float | None) -> bool:
        self._updated = self._scaler is None
        for optimizer in group:
            if clip_norm is not None:
                if self._scaler is not None:
                    self._scaler.unscale_(optimizer)
                parameters = [item for part in optimizer.param_groups for item in part["params"]]
                nn.utils.clip_grad_norm_(parameters, clip_norm)
            if self._scaler is not None:
                if optimizer not in self._watched:  # it may have been made elsewhere
                    self._watched.add(optimizer)
                    optimizer.register_step_post_hook(self._note_update)
                self._scaler.step(optimizer)
            else:
                optimizer.step()
        if self._scaler is not None:
            self._scaler.update()
        for optimizer in group:
            optimizer.zero_grad(set_to_none=True)
        return self._updated

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must keep besides model and optimizer: the gradient scaler's state."""
        return {} if self._scaler is None else {"scaler": self._scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        if self._scaler is not None and "scaler" in state:
            self._scaler.load_state_dict(state["scaler"])

    def restore(self) -> None:
        """Set the process-wide switches back."""
        while self._restore:
            self._restore.pop()()

    def __enter__(self) -> Tuned:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    def _note_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._updated = self._updated or not skipped(optimizer)
