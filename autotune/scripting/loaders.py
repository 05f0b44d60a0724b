"""The script's DataLoaders: their arguments as the config changes them, and the iteration of the training one."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from autotune.plan import Plan
from autotune.samples import epoch_batches
from autotune.scripting.changes import Changes
from autotune.scripting.passes import Pass, Passes
from autotune.scripting.site import Site, site_of_caller
from autotune.workload.script import is_library

SIGNATURE = inspect.signature(DataLoader.__init__)
OF_BATCH_SAMPLER = ("batch_size", "shuffle", "sampler", "drop_last")
"""arguments that a DataLoader with a batch_sampler refuses"""

PLAIN = (bool, int, float, str, Path, type(None))
"""types of settings that tell one dataset from another, as "train" from "test" """

SAMPLERS = ("sampler", "batch_sampler")

Kind = tuple[int | None, bool]
"""batch size, and whether something orders the samples, as it rarely does for an evaluation"""


@dataclass(eq=False)
class SeenLoader:
    """A DataLoader of the script."""

    number: int
    """in the order in which the script makes them"""
    site: Site
    """files and lines from where it is made up to the main module, those of libraries among them"""
    arguments: dict[str, Any]
    """as the script gives them; empty once it is gone and a later one can no longer be told by it"""
    kind: Kind = (1, False)
    """as the arguments say; what one place makes of another kind is another loader"""
    made_of: SeenLoader | None = None
    """the one whose batch sampler it takes over: libraries make the script's loader one of their own kind"""
    first: SeenLoader | None = None
    """the one that this is, made anew for another epoch or of another kind; None: it is no other's successor"""
    iterated: bool = False
    length: int | None = None
    """batches in an epoch, as it says when it is iterated"""
    fetched: int = 0
    updates: int = 0
    """optimizer updates that followed one of its batches"""
    read_in_thread: bool = False
    """it was asked for a batch outside the main thread"""
    passes: Passes = field(default_factory=Passes)
    """over this one and those that are this one made anew"""

    @property
    def made_at(self) -> str:
        """Where the script makes it, as "train.py:12"; empty where no line of it does."""
        own = ((name, line) for name, line in self.site if not is_library(name))
        return next((f"{Path(name).name}:{line}" for name, line in own), "")

    @property
    def root(self) -> SeenLoader:
        """The first of those that this one is another of; its arguments are the script's own."""
        return self.first or self

    @property
    def half_read(self) -> bool:
        """Whether the script has not taken all batches of the last pass over it, or may still ask for more."""
        latest = self.root.passes.latest
        if latest is None or latest.over:
            return False
        return bool(latest.iterators) or self.length is None or latest.given < self.length

    def again(self, known: SeenLoader) -> bool:
        """Whether this is the known one, or that one made anew."""
        return self.root is known.root


def kind_of(arguments: dict[str, Any]) -> Kind:
    """Return what tells two loaders apart that one place makes: their data may change from one to the next."""
    ordered = bool(arguments.get("shuffle")) or any(arguments.get(name) is not None for name in SAMPLERS)
    return arguments.get("batch_size", 1), ordered


def alike(some: dict[str, Any], others: dict[str, Any]) -> bool:
    """Whether two loaders were given the same: arguments, and data of one kind and length and the same settings."""
    if some.keys() != others.keys():
        return False
    return all(_same(some[name], others[name]) for name in some)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, PLAIN):
        return bool(one == other)
    if isinstance(one, Sized) and isinstance(other, Sized) and _count(one) != _count(other):
        return False
    settings, others = getattr(one, "__dict__", {}), getattr(other, "__dict__", {})
    plain = {name: value for name, value in settings.items() if isinstance(value, PLAIN)}
    return plain == {name: value for name, value in others.items() if isinstance(value, PLAIN)}


def _count(data: Sized) -> int | None:
    try:
        return len(data)
    except Exception:
        return None  # the user's own does not tell


class Batches:
    """The iterator over a loader of the script; what answers its requests is decided elsewhere."""

    def __init__(
        self, loader: DataLoader[Any], seen: SeenLoader, inner: Iterator[Any], ask: Callable[[Batches], Any]
    ) -> None:
        self.loader, self.seen, self.inner, self._ask = loader, seen, inner, ask
        self.turn: Pass = seen.root.passes.begin()
        self.turn.iterators.add(self)
        self._first: bool | None = None
        self.given = 0
        """batches that the script got before it was held"""
        self.fed = 0
        """batches that it got since"""
        self.pulled = 0
        """batches taken from the loader to be fed; others are fed a second time"""
        self.length = seen.length
        """batches that the loader says an epoch has; None: it does not say"""

    @property
    def aside(self) -> bool:
        """Whether another iterator over the same loader is held, and this one is read in turn with it."""
        if self._first is None:
            self._first = self.turn.state is None
        return self.turn.aside or not self._first

    @property
    def full(self) -> bool:
        """Whether the script got as many batches as its loader has: one more would be more than it reckons with.

        What it keeps for each batch of an epoch and what it schedules for all of them has that length. A loader that
        gave more than it says it has is believed no longer.
        """
        if self.length is None or self.given + self.pulled > self.length:
            return False
        return self.given + self.fed >= self.length

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        return self._ask(self)

    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _nothing(seen: SeenLoader) -> None:
    pass


@dataclass(eq=False)
class LoaderHooks:
    """Sees each DataLoader that the script makes and iterates; no hook exists for either, so both are patched."""

    plan: Plan
    training: int | None = None
    """number of the training loader; None: not known (yet), or none"""
    guess: bool = False
    """take the first loader that shuffles, or streams, for the training loader"""
    ours: Callable[[], bool] = lambda: False
    """whether it is not the script that runs"""
    ask: Callable[[Batches], Any] | None = None
    """answers requests for a batch; None: they are not looked at"""
    began: Callable[[SeenLoader], None] = _nothing
    """called before a loader is iterated"""
    left: Callable[[SeenLoader], None] = _nothing
    """called with a loader that the place of the training one makes, and that is not the training one made anew"""
    seen: list[SeenLoader] = field(default_factory=list)
    _by_loader: weakref.WeakKeyDictionary[Any, SeenLoader] = field(default_factory=weakref.WeakKeyDictionary)

    def install(self, changes: Changes) -> None:
        make, iterate = DataLoader.__init__, DataLoader.__iter__
        hooks = self

        @functools.wraps(make)
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:
            given = hooks._given(loader, args, kwargs)
            if given is None:
                make(loader, *args, **kwargs)
                return
            seen = SeenLoader(len(hooks.seen), site_of_caller(), given, kind_of(given), hooks._made_of(given))
            seen.first = hooks._made_before(seen) if seen.made_of is None else seen.made_of.root
            ordered = seen.kind[1] or isinstance(given["dataset"], IterableDataset)
            if hooks.guess and hooks.training is None and ordered:
                hooks.training = seen.number
            training = hooks.is_training(seen)
            if not training and hooks._is_left(seen):
                hooks.left(seen)
            if seen.first is not None or any(item.site == seen.site for item in hooks.seen):
                weakref.finalize(loader, hooks._let_go, seen).atexit = False
            hooks.seen.append(seen)
            hooks._by_loader[loader] = seen
            make(loader, **(planned_arguments(hooks.plan, given) if training else given))

        @functools.wraps(iterate)
        def __iter__(loader: Any) -> Any:
            seen = hooks._by_loader.get(loader)
            if seen is None or hooks.ours():
                return iterate(loader)
            for item in (seen, seen.made_of):
                if item is not None:
                    item.iterated = True
            # by torch's own count: one that keeps an iterator for all of its epochs says how long one of them is
            seen.length = None if hooks.ask is None else epoch_batches(loader, DataLoader.__len__)
            hooks.began(seen)
            inner = iterate(loader)
            wanted = hooks.training is None or hooks.is_training(seen)
            return inner if hooks.ask is None or not wanted else Batches(loader, seen, inner, hooks.ask)

        changes.patch(DataLoader, "__init__", __init__)
        changes.patch(DataLoader, "__iter__", __iter__)

    def forget(self) -> None:
        """Begin anew: the script runs again, and the workers of its last run have nothing left to do."""
        self.seen.clear()
        for loader in list(self._by_loader):
            iterator, loader._iterator = getattr(loader, "_iterator", None), None  # of workers that persist
            if iterator is not None:
                iterator._shutdown_workers()

    def is_training(self, seen: SeenLoader) -> bool:
        """Whether this is the training loader: the one known, or that of another epoch."""
        if self.training is None:
            return False
        if seen.number == self.training:
            return True
        if self.training >= len(self.seen):
            return False
        return seen.again(self.seen[self.training])

    def _let_go(self, seen: SeenLoader) -> None:
        """Keep none of the data of a loader that is gone: of those of one place, the first tells what the others are.

        While nobody knows the training loader, it may be one that is no other's successor.
        """
        if seen.first is not None or self.training not in (None, seen.number):
            seen.arguments.clear()

    def _made_before(self, seen: SeenLoader) -> SeenLoader | None:
        """Return the first of the loaders that the script makes anew for each epoch, where this is one of them.

        It is where one of its kind made at the same place was iterated before, but for one thing: while another is made
        anew and still to be iterated, the two are read in turn, and the second is no successor of the first. One of
        another kind is for another phase, or evaluates. A function may also be called from two places, for the first
        epoch and for each further one, or for training and evaluation: a loader that is the first of its place is
        another's where both look the same.
        """
        same = [item for item in self.seen if item.site == seen.site and item.kind == seen.kind]
        if not same:
            of_function = [item for item in self.seen if item.site[:1] == seen.site[:1] and item.iterated]
            found = next((item for item in of_function if alike(item.arguments, seen.arguments)), None)
        elif any(item.first and not item.iterated for item in self._by_loader.values() if item in same):
            return None
        else:
            found = next((item for item in same if item.iterated), None)
        return None if found is None else found.root

    def _is_left(self, seen: SeenLoader) -> bool:
        """Whether the place of the training loader makes this one too, and not to evaluate, as far as it shows."""
        beside = (item for item in self.seen if item.site == seen.site and self.is_training(item))
        return any(seen.kind[1] or not item.kind[1] for item in beside)

    def _made_of(self, given: dict[str, Any]) -> SeenLoader | None:
        """Return the loader over the same data that made itself the batch sampler which this one is given.

        Two loaders that the script gives one batch sampler, or over data that go side by side, are read in turn.
        """
        batch_sampler = given.get("batch_sampler")
        if batch_sampler is None:
            return None
        for loader, seen in self._by_loader.items():
            own = seen.arguments.get("batch_sampler") is None and seen.arguments["dataset"] is given["dataset"]
            if own and getattr(loader, "batch_sampler", None) is batch_sampler:  # one that failed has none
                return seen
        return None

    def _given(self, loader: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments by name; None where the call is not the script's, or wrong."""
        if self.ours():
            return None
        try:
            given = dict(SIGNATURE.bind(loader, *args, **kwargs).arguments)
        except TypeError:
            return None  # the DataLoader itself says what is wrong
        given.pop("self")
        return given


def planned_arguments(plan: Plan, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the script's DataLoader as the plan changes them; what the script decides stays."""
    merged = plan.loader_arguments(given)
    if why_batches_are_given(given, ""):
        # a DataLoader refuses what it has no say in, unless it is the default
        merged = {name: value for name, value in merged.items() if name not in OF_BATCH_SAMPLER}
        merged |= {name: given[name] for name in OF_BATCH_SAMPLER if name in given}
    known: Any = given["dataset"] if given.get("sampler") is None else given["sampler"]
    if merged.get("drop_last") and not given.get("drop_last") and _fewer(known, merged.get("batch_size") or 1):
        merged["drop_last"] = False  # else nothing would be left
    return merged


def why_batches_are_given(arguments: dict[str, Any], made_at: str) -> str | None:
    """Return why the batches are not the DataLoader's own to make, so that it has no say in their size; or None."""
    if arguments.get("batch_sampler") is not None:
        return f"the batch_sampler of {made_at} decides it"
    if arguments.get("batch_size", 1) is None:
        if yields_batches(arguments.get("sampler")):
            return f"the sampler of {made_at} decides it"
        return f"the dataset of {made_at} yields whole batches"
    return None


def yields_batches(sampler: Any) -> bool:
    """Whether a sampler asks the dataset for whole batches; of another's keys, nobody knows what they stand for."""
    return isinstance(sampler, BatchSampler)


def _fewer(data: Any, than: int) -> bool:
    return isinstance(data, Sized) and len(data) < than
