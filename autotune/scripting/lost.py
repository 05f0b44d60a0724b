"""Whether the script still comes back to its training loader: one that does not would run to its end unheld."""

from __future__ import annotations

from autotune.errors import ScriptError
from autotune.scripting.loaders import SeenLoader

LOST_AFTER = 200  # steps without the training loader; an evaluation makes none, a phase in between rarely so many
EPOCHS_OF_ANOTHER = 2  # a loader of some other training may be read whole in between
BY_CYCLE = "itertools.cycle(loader) keeps all batches of one epoch in memory and reads the loader no more. "


class ComesBack:
    """Counts the updates since the training loader was asked for a batch."""

    def __init__(self) -> None:
        self._updates = 0
        self._other: SeenLoader | None = None
        """the last other loader that was iterated since"""

    def asked(self) -> None:
        """The training loader was asked."""
        self._updates, self._other = 0, None

    def iterated(self, other: SeenLoader) -> None:
        """Another loader is iterated."""
        self._other = other

    def updated(self, known: SeenLoader | None, updates_per_step: int) -> ScriptError | None:
        """An update was made; return why the script cannot be measured where it has left its training loader.

        The config is not applied to another loader, so that measuring on that one would be no measurement of it.
        """
        self._updates += 1
        length = 0 if self._other is None else self._other.length or 0
        if self._updates <= updates_per_step * (LOST_AFTER + EPOCHS_OF_ANOTHER * length):
            return None
        first = "the one" if known is None or not known.made_at else f"that of {known.made_at}"
        if self._other is None:
            now, way = "without a DataLoader", BY_CYCLE
        else:
            now, way = f"with the loader of {self._other.made_at or 'a library'}", ""
        return ScriptError(
            f"the script goes on training {now}, and has made {self._updates} updates since it last read {first} that "
            "it began with: autotune measures on that one alone",
            hint="Let it train on one loader, which it may make anew in one place, with one batch size and order. "
            f"{way}Or give it a workload, of which `autotune init` writes most.",
        )
