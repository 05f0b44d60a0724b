"""A script's training as the phases of a trial see it: batches, a step, a loader that can be made again."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from autotune.batches import clone
from autotune.compiling import kept
from autotune.config import Config
from autotune.errors import WorkloadError
from autotune.measure.session import OF_TORCH, Session
from autotune.measure.stream import Fetched, Stream
from autotune.measure.training import Training
from autotune.samples import SampleCounter, epoch_batches
from autotune.scripting.driver import END, MAX_RUNS_UNHELD, Driver
from autotune.scripting.loaders import planned_arguments
from autotune.scripting.models import trained_by
from autotune.scripting.optimizers import ScriptOptimizer
from autotune.scripting.settings import IMPLEMENTATIONS
from autotune.tuned import Tuned, TunedLoader
from autotune.workload import Workload

PART_ARGUMENTS = ("sampler", "batch_sampler", "shuffle", "generator")
"""arguments that belong to the whole dataset: a loader over a part of it does without"""


class ScriptTraining(Training):
    """The training of a script that is held at its first request; each step is one turn of the script's own loop."""

    def __init__(self, driver: Driver, config: Config) -> None:
        assert driver.found is not None
        self.driver, self.config, self.found = driver, config, driver.found
        self.host = self._host()
        self.dataset = None if self.host is None else self.host.dataset
        self.arguments = {} if self.found.loader is None else driver.loaders.seen[self.found.loader].arguments
        self.batch_size = int(config.value("batch_size")) if self.host is not None else self.found.samples_per_step
        self.tuned = ScriptTuned(driver)
        self.model = _model(driver.models.models)
        self.optimizers: list[Any] = [
            ScriptOptimizer(driver.optimizers, number) for number in driver.optimizers.numbers
        ]
        self.loader = TunedLoader(ScriptSteps(driver) if self.host is None else ScriptBatches(driver), _as_it_is)
        self.workload = Workload(
            model=lambda: self.model,
            dataset=lambda: self.dataset,
            drop_last=self.host is not None and _drops_last(self.host),
            collate_fn=self.arguments.get("collate_fn"),
        )

    def step(self, batch: Any, samples: int | None = None) -> Tensor | None:
        """Let the script go through its loop once, on this batch."""
        losses = self.driver.losses
        losses.forget()
        self.driver.feed(batch)
        return None if losses.last is None else kept(losses.last.reshape(-1)[0])

    def end_epoch(self) -> None:
        """The script's own loop sees to what is left of an update."""

    def make_loader(self, *, samples: int | None = None, batch_size: int | None = None) -> TunedLoader:
        """Return a loader like the script's over the first `samples` of its data, or with another batch size."""
        if self.host is None:
            raise WorkloadError("the script has no DataLoader")
        given = dict(self.arguments)
        if samples is not None:  # of the same dataset: what a worker is begun with may ask it for something of its own
            given = {name: value for name, value in given.items() if name not in PART_ARGUMENTS}
            given["sampler"] = range(samples)
        merged = planned_arguments(self.driver.plan, {**given, "dataset": self.dataset})
        if batch_size is not None:
            merged.update(batch_size=batch_size)
        return TunedLoader(DataLoader(**merged), _as_it_is)

    def build_optimizers(self, tuned: Tuned) -> list[Optimizer]:
        """Return optimizers like the script's, as `tuned` builds them."""
        return [tuned.optimizer(_rebuilt, item) for item in self.driver.optimizers.optimizers]

    @property
    def optimizer_kinds(self) -> list[str]:
        """The names of the classes of the script's optimizers, in order."""
        return [type(item).__name__ for item in self.driver.optimizers.optimizers]

    def trainable(self) -> Mapping[str, Tensor]:
        """Return what may change: the models' parameters, and what the optimizers hold beside them, as an image."""
        return trained_by(self.driver.models.models, self.driver.optimizers.optimizers)

    def _host(self) -> DataLoader[Any] | None:
        if self.found.loader is None:
            return None
        assert self.driver.request is not None, "the script is not held at its training loader"
        return self.driver.request.loader


class ScriptTuned(Tuned):
    """Applies nothing: the driver does."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(device=str(driver.device.torch))
        self._driver = driver

    @property
    def compiles(self) -> bool:
        return self._driver.plan.compiles


class ScriptSession(Session):
    """A trial of a script as its phases see it."""

    training: ScriptTraining

    def __post_init__(self) -> None:
        super().__post_init__()
        self._compiled_before = self.training.driver.compiled_before
        host = self.training.host
        if host is not None:
            self.accumulation = self.training.found.batches_per_update
            self.workers = int(host.num_workers)
            self.queue = self.workers * int(host.prefetch_factor or 0)

    @property
    def plain_loader(self) -> bool:
        host = self.training.host
        return (
            type(host) is DataLoader
            and not isinstance(host.dataset, IterableDataset)
            and host.batch_size is not None
            and self.training.found.batches_per_update == 1
        )

    @property
    def own_sampler(self) -> bool:
        sampler = self.training.arguments.get("sampler")
        return sampler is not None and not isinstance(sampler, OF_TORCH)

    @property
    def drops_last(self) -> bool:
        return self.training.workload.drop_last

    def open_stream(self, loader: TunedLoader, length: int | None) -> Stream:
        host: Any = loader.host
        if not isinstance(host, ScriptBatches | ScriptSteps):
            return super().open_stream(loader, length)
        training = self.training
        counter = SampleCounter(
            training.batch_size,
            dataset_length=length,
            steps_per_epoch=epoch_batches(training.host) if isinstance(host, ScriptBatches) else None,
            drop_last=training.workload.drop_last,
            fixed=self.fixed_batch,
            count=None,
        )
        return ScriptStream(host, counter, self.clock)


class ScriptStream(Stream):
    """The batches of a script, which may be held in the middle of its first epoch."""

    def _start(self, began: float) -> Fetched:
        batches = self._host if isinstance(self._host, ScriptBatches) else None
        ended_unseen = batches is not None and batches.ended_unseen
        fetched = super()._start(began + (0.0 if batches is None else batches.tail_s))
        if ended_unseen and self.boundaries:
            self.boundaries.pop()  # the epoch had begun before this batch was asked for
        request = self._host.driver.request
        if request is not None and request.given:
            self.position += request.given
            self._epoch_samples += request.given * fetched.samples
            self.first_batch_s = self._host.driver.first_batch_s
        return fetched

    def _end_epoch(self) -> None:
        if not isinstance(self._host, ScriptBatches) or self._host.whole:
            super()._end_epoch()
        elif self._host.left_after is not None:  # what was pulled without a step does not count
            self.steps_per_epoch = self._host.left_after
            self.samples_per_epoch = self._host.left_after * self._count.batch_size


class ScriptBatches:
    """The epochs of the script's training loader."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.left_after: int | None = None
        """steps after which the script left its loop before the last epoch's end; None: it did not, or itself ended"""
        self.whole = True
        """whether the last epoch went to the loader's end, with a step on each of its batches"""
        self.ended_unseen = False
        """whether the last epoch ended, and the next began, in a step: the script was begun again, or fed in between"""
        self.tail_s = 0.0
        """seconds of the steps that came after the last epoch's end: they are no part of the restart"""
        self._was_full = False
        """whether the script had got all batches of the epoch already"""

    def __len__(self) -> int:
        assert self.driver.request is not None
        return len(self.driver.request.loader)

    def __iter__(self) -> Iterator[Any]:
        for _ in range(MAX_RUNS_UNHELD):
            yielded = False
            for batch in self._epoch():
                yielded = True
                yield batch
            if yielded or not self._was_full:
                return

    def _epoch(self) -> Iterator[Any]:
        """Yield the batches that the script's own epoch still has."""
        request, runs = self.driver.request, self.driver.runs
        assert request is not None
        self.whole, self.left_after, self.ended_unseen, self._was_full = True, None, False, False
        self.tail_s = 0.0
        batch: Any = None
        while self.driver.request is request:
            self._was_full = request.full
            if self._was_full and request.fed > request.pulled:  # of the last ones, others were fed instead
                self.whole = False
                self.driver.drain()
                batch = END
            else:
                last = None if request.given + request.fed else batch
                batch = self.driver.pull()
                if batch is END and last is not None:  # without a batch it would divide by a count of 0, and the like
                    self.driver.feed_untimed(clone(last))
                    if self.driver.request is not request:
                        break
            if batch is END:
                del request  # where the script ends now its workers do, and that is no part of an epoch
                self.driver.end_epoch()
                self.tail_s = self.driver.clock.tail_s
                return
            yield batch
        # another request: the script has left its loop early and begun the next epoch, or was begun again
        self.whole = False
        self.ended_unseen = self.driver.runs != runs or request.full or not request.turn.updates
        self.left_after = None if self.ended_unseen else request.given + request.fed


@dataclass(frozen=True)
class ScriptSteps:
    """The steps of a script that makes its batches itself: each ends with an update."""

    driver: Driver

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def _drops_last(host: DataLoader[Any]) -> bool:
    """Return whether an epoch leaves out what makes no whole batch; a batch sampler that was given decides that."""
    return bool(getattr(host.batch_sampler, "drop_last", host.drop_last))


def _rebuilt(optimizer: Optimizer) -> Optimizer:
    """Return a new optimizer of the same class, parameters and settings, but for how it is implemented."""
    known = inspect.signature(type(optimizer)).parameters
    wanted = {name for name in optimizer.defaults if name in known and name not in IMPLEMENTATIONS}
    groups = [
        {name: value for name, value in group.items() if name == "params" or name in wanted}
        for group in optimizer.param_groups
    ]
    settings: dict[str, Any] = {name: optimizer.defaults[name] for name in wanted}
    return type(optimizer)(groups, **settings)


def _model(models: list[nn.Module]) -> nn.Module:
    return models[0] if len(models) == 1 else nn.ModuleList(models)


def _as_it_is(batch: Any) -> Any:
    return batch
