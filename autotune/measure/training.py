"""The user's training with a config applied: the very objects that a trial steps through."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset, IterableDataset

from autotune.compiling import kept, refuse_torchscript
from autotune.config import Config
from autotune.errors import ScriptError, WorkloadError
from autotune.plan import plan_for
from autotune.tuned import Tuned, TunedLoader
from autotune.workload import Workload, accepts, first_argument
from autotune.workload.script import brief, user_traceback
from autotune.workload.step import LossStep, check_trains

LOADER_OPTIONS = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "multiprocessing_context")
"""what a loader factory of the user's own is given beside the batch size, where it takes it"""
MODEL_ARGUMENTS = ("model", "module", "net", "network")
DEFAULT_LEARNING_RATE = 1e-3


def seed_all(seed: int) -> None:
    """Seed the three generators that data and models draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


class Training:
    """Model, optimizers, loader and step of one workload under one config."""

    def __init__(self, workload: Workload, config: Config, *, device: str = "", seed: int = 0) -> None:
        """Build everything but the loader's iterator.

        Raises:
            WorkloadError: a factory returned something else than it should.
        """
        self.workload = workload
        self.config = config
        self.batch_size = int(config.value("batch_size"))
        seed_all(seed)
        self.tuned = Tuned(config, device=device, checkpoint_blocks=workload.checkpoint_blocks)
        self.dataset = self._build_dataset()
        self.loader = self.make_loader()
        self.model = self.tuned.model(_check_model(workload.model()))
        self.model.train()
        self.loss_step = LossStep(workload)
        self._initialize_lazy_parameters()
        self.optimizers = self.build_optimizers(self.tuned)
        self.tuned.batch_transform = workload.batch_transform

    def step(self, batch: Any, samples: int | None = None) -> Tensor | None:
        """Train on one batch that is on the device; return its loss, still on the device.

        `samples` are in the batch; None: as many as the batch size says.
        """
        own = self.workload.training_step
        if self.workload.own_step and own is not None:
            loss = own(self.tuned, self.model, batch)
            return kept(loss) if isinstance(loss, Tensor) else None
        loss = self.backward(batch, samples)
        self.update()
        return loss

    def backward(self, batch: Any, samples: int | None = None) -> Tensor:
        """Compute the gradients of one batch that is on the device; return its loss."""
        self.tuned.begin_batch(self.batch_size if samples is None else samples)
        with self.tuned.autocast():
            loss = self.loss_step(self.model, batch)
        check_trains(loss)
        self.tuned.backward(loss)
        return kept(loss)

    def update(self) -> bool:
        """Let the optimizers use the gradients; return whether an update happened."""
        return self.tuned.step(self.optimizers, clip_norm=self.workload.clip_norm)

    def end_epoch(self) -> None:
        """Make the update of the batches that are left over, where several make one."""
        if not self.workload.own_step:
            self.tuned.finish(self.optimizers, clip_norm=self.workload.clip_norm)

    def make_loader(self, *, samples: int | None = None, batch_size: int | None = None) -> TunedLoader:
        """Return the training loader, over the first `samples` or with another batch size where given."""
        workload = self.workload
        size = batch_size or self.batch_size
        if workload.loader is not None:
            return self.tuned.batches(_again(partial(workload.loader, size, **self._loader_options())))
        data = self.dataset
        if workload.pre_batched:
            if not isinstance(data, Dataset):
                return self.tuned.batches(_again(partial(self._build_dataset, size), data))
            return self.tuned.loader(data, batch_size=None, collate_fn=workload.collate_fn)
        arguments: dict[str, Any] = {"drop_last": workload.drop_last}
        if workload.collate_fn is not None:
            arguments["collate_fn"] = workload.collate_fn
        if not isinstance(data, IterableDataset):
            if samples is not None:
                arguments["sampler"] = range(samples)
            elif workload.sampler is not None:
                arguments["sampler"] = workload.sampler(data)
            else:
                arguments["shuffle"] = True
        loader = self.tuned.loader(data, **arguments)
        if batch_size is None:
            return loader
        return self.tuned.batches(DataLoader(data, **{**arguments, "batch_size": batch_size}))

    def build_optimizers(self, tuned: Tuned) -> list[Optimizer]:
        """Return new optimizers of the model as `tuned` builds them."""
        parameters = [item for item in self.model.parameters() if item.requires_grad]
        if not parameters:
            raise WorkloadError(
                "the model has no trainable parameters", hint="Every parameter has requires_grad=False."
            )
        factory = self.workload.optimizer
        if factory is None:
            made = tuned.optimizer(torch.optim.AdamW, parameters, lr=DEFAULT_LEARNING_RATE)
        elif first_argument(factory) in MODEL_ARGUMENTS:
            made = tuned.optimizer(factory, self.model)
        else:
            made = tuned.optimizer(factory, parameters)
        optimizers = list(made) if isinstance(made, list | tuple) else [made]
        for item in optimizers:
            if not isinstance(item, Optimizer):
                raise WorkloadError(f"optimizer() returned {type(item).__name__}, which is no Optimizer")
        return optimizers

    @property
    def optimizer_kinds(self) -> list[str]:
        """The names of the optimizers' classes, in order."""
        return [type(item).__name__ for item in self.optimizers]

    def trainable(self) -> Mapping[str, Tensor]:
        return {name: item for name, item in self.model.named_parameters() if item.requires_grad}

    def _loader_options(self) -> dict[str, Any]:
        """Return what the config says of the loader, as far as the user's own factory takes it."""
        factory = self.workload.loader
        assert factory is not None
        planned = plan_for(self.config).loader_arguments()
        return {name: planned[name] for name in LOADER_OPTIONS if name in planned and accepts(factory, name)}

    def _build_dataset(self, batch_size: int | None = None) -> Any:
        factory = self.workload.dataset
        if factory is None:
            return None
        if self.workload.pre_batched:
            return factory(batch_size or self.batch_size)
        return _check_dataset(factory())

    def _initialize_lazy_parameters(self) -> None:
        if any(isinstance(item, nn.parameter.UninitializedParameter) for item in self.model.parameters()):
            if self.workload.own_step:
                raise WorkloadError(
                    "the model has lazy modules, and a training step of its own, which needs the optimizers first",
                    hint="Run the model once on a batch in the function that builds it.",
                )
            # a compilation without gradients would be thrown away
            with torch.no_grad(), torch.compiler.set_stance("force_eager"):
                self.loss_step(self.model, self.tuned.place(next(iter(self.make_loader(batch_size=2)))))


def _check_dataset(dataset: Any) -> Any:
    if isinstance(dataset, IterableDataset):
        return dataset
    kind = type(dataset).__name__
    if isinstance(dataset, DataLoader):
        raise WorkloadError(
            "dataset() returned a DataLoader, not a Dataset",
            hint="Return the dataset in it, or give loader=(batch_size, **options) -> DataLoader instead of dataset=.",
        )
    if isinstance(dataset, Mapping) or (isinstance(dataset, tuple) and any(isinstance(d, Dataset) for d in dataset)):
        raise WorkloadError(f"dataset() returned a {kind}, not one dataset", hint="Return the one to train on.")
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise WorkloadError(
            f"dataset() returned {kind}, which is no Dataset",
            hint="Does it end without a return?" if dataset is None else "It needs __getitem__ and __len__.",
        )
    try:
        length = len(dataset)
    except Exception as error:
        theirs = user_traceback(error) if error.__traceback__ and error.__traceback__.tb_next else ""
        raise ScriptError(f"the dataset does not tell its length: {brief(error)}", traceback=theirs) from error
    if length == 0:
        raise WorkloadError("the dataset is empty: its length is 0", hint="Is the path to the data right?")
    return dataset


def _check_model(model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise WorkloadError(f"model() returned {type(model).__name__}, which is no nn.Module")
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise WorkloadError(
            f"model() returned a {type(model).__name__}: it spreads over several devices itself",
            hint="autotune tunes one device; return the plain model.",
        )
    refuse_torchscript(model)
    devices = {str(item.device) for item in model.parameters()}
    if devices == {"meta"}:
        raise WorkloadError(
            "the model is on the meta device: its parameters have no values", hint="Return it with them."
        )
    if len(devices) > 1:
        raise WorkloadError(
            f"the model spreads over several devices itself: {', '.join(sorted(devices))}",
            hint="autotune tunes one device; leave the placement to it.",
        )
    return model


class _Again:
    """An iterable whose factory yields something that can be read once: made anew for each epoch."""

    def __init__(self, make: Callable[[], Any], first: Any) -> None:
        self._make, self._first = make, first

    def __iter__(self) -> Iterator[Any]:
        first, self._first = self._first, None
        return iter(self._make() if first is None else first)


def _again(make: Callable[[], Any], made: Any = None) -> Any:
    """Return what `make` returns (`made`, where that is there already), readable once an epoch."""
    made = make() if made is None else made
    if not hasattr(made, "__iter__"):
        raise WorkloadError(f"the loader is a {type(made).__name__}, which is not iterable")
    return _Again(make, made) if isinstance(made, Iterator) else made
