"""What the probe finds out about in-place activations: which modules leave the gradients as they are, tried out.

An activation that overwrites its input breaks what else needs that input: autograd may notice, or the sum of a residual
connection is simply another. Randomness is off while gradients are compared: equal seeds would not do, since dropout
in place may draw its numbers otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from autotune.inplace import set_inplace, switchable, value_without
from autotune.measure.numerics.quiet import quiet
from autotune.probing.kept import Kept
from autotune.probing.recomputing import Gradients, differ


class InplaceCheck:
    """Compares gradients of a model with some of its activations in place."""

    def __init__(self, model: nn.Module, gradients: Callable[[], Gradients]) -> None:
        """`gradients` returns those of one step, from the same state and random numbers each time."""
        self._model, self._gradients = model, gradients
        self._groups = switchable(model)
        self._kept: Gradients = {}
        self._chosen: list[str] = []

    def find(self) -> tuple[str, str | None]:
        """Return the option's value for this model, or an empty text and why there is none."""
        if not self._groups:
            return "", "no module of the model has an inplace switch that is off"
        with quiet(self._model):
            self._kept, again = self._gradients(), self._gradients()
        if differ(self._kept, again):
            return "", "the gradients are not repeatable, so that activations in place cannot be checked"
        broken = self._broken(list(self._groups))
        self._chosen = [name for name in self._groups if name not in broken]
        if self._chosen and not self.works(self._chosen):
            self._chosen = self._together(self._chosen)
        if not self._chosen:
            return "", f"in place they change the gradients, or autograd refuses: {', '.join(self._groups)}"
        return value_without([name for name in self._groups if name not in self._chosen]), None

    def works_recomputed(self) -> bool:
        """Whether what `find` chose leaves the gradients alone now that the model recomputes its blocks."""
        return bool(self._chosen) and self.works(self._chosen)

    def works(self, names: Sequence[str]) -> bool:
        """Whether the gradients stay the same with these modules in place."""
        kept = Kept(self._model)
        modules = [module for name in names for module in self._groups[name]]
        set_inplace(modules, True)
        try:
            with quiet(self._model):
                return not differ(self._kept, self._gradients())
        except Exception:  # autograd noticed, or the user's code did
            kept.restore()
            return False
        finally:
            set_inplace(modules, False)

    def _together(self, names: list[str]) -> list[str]:
        """Return those that work in place together, the first ones rather than the later.

        An activation in place keeps its result for the backward pass, which a dropout in place after it overwrites.
        """
        found: list[str] = []
        for name in names:
            if self.works([*found, name]):
                found.append(name)
        return found

    def _broken(self, names: list[str]) -> list[str]:
        """Return those that break the gradients, by halving."""
        if self.works(names):
            return []
        if len(names) == 1:
            return names
        middle = len(names) // 2
        return [*self._broken(names[:middle]), *self._broken(names[middle:])]
