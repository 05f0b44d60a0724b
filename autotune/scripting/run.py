"""`autotune run`: an unmodified script to its end, with a config applied from outside."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from autotune.config import Config
from autotune.device import expand_segments_from_the_start
from autotune.errors import WorkloadError
from autotune.implementations import implementations
from autotune.options import OPTIONS
from autotune.plan import edits_of, plan_for
from autotune.scripting.carried import NO_LOADER, NO_MODEL, UNKNOWN_LOADER, not_carried_out
from autotune.scripting.changes import Changes
from autotune.scripting.loaders import OF_BATCH_SAMPLER, LoaderHooks, SeenLoader, why_batches_are_given
from autotune.scripting.main_module import end_of, run_as_main
from autotune.scripting.models import ModelHooks
from autotune.scripting.optimizers import OptimizerHooks
from autotune.scripting.settings import Settings
from autotune.workload.script import user_traceback

NO_OPTIMIZER = "no optimizer of torch's made a step"


def _nothing(text: str) -> None:
    pass


class AppliedConfig:
    """A config on the script that runs in this process: applied as the script makes its objects, and accounted for.

    Hooks on all modules and on the optimizers' steps stay for the first updates only, and for those of a new optimizer.
    """

    def __init__(
        self,
        config: Config,
        training: int | None,
        tell: Callable[[AppliedConfig], None],
        note: Callable[[str], None] = _nothing,
    ) -> None:
        """`training` is the number of the training loader; None: the first that shuffles. `tell` is called once, and
        `note` with what is not covered of what the script makes later."""
        self.config, self.settings = config, Settings()
        self.plan = plan_for(config)
        self.applied: dict[str, str] = {}
        """by option, to what"""
        self.refused: dict[str, str] = {}
        """by option, why not"""
        self.loaders = LoaderHooks(self.plan, training=training, guess=training is None, left=self._left)
        self.models = ModelHooks(self.plan, self._before_forward)
        self.optimizers = OptimizerHooks(self.plan, self._updated, lambda: False, self._new_optimizer)
        self._tell, self._note, self._told = tell, note, False
        self._noted: set[str] = set()
        self._changes, self._first = Changes(), Changes()

    def __enter__(self) -> AppliedConfig:
        self.settings.install(self._first)
        if self.plan.expandable_segments:
            self._changes.add(expand_segments_from_the_start())
        for switch in self.plan.switches:
            self._changes.add(switch())
        self.settings.by_option.clear()  # so far it was our own switches
        self.loaders.install(self._changes)
        self.optimizers.install(self._changes)
        self.models.find()
        return self

    def __exit__(self, *_: Any) -> None:
        self.models.stop_finding()
        self._first.undo()
        self._changes.undo()

    def finish(self) -> None:
        """The script has come to its end: say what was applied, where it was too short to say it before."""
        self._settle()

    def _left(self, seen: SeenLoader) -> None:
        """Say of a loader that it is not the training one made anew; once for all of one kind."""
        if not self.plan.loader:
            return
        self._note_once(
            f"the loader of {seen.made_at or 'a library'} with batch_size={seen.kind[0]} is left as the script makes "
            "it: its batch size, its order or its turn is not the training loader's"
        )

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)

    def _before_forward(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if self.plan.scale_gradients and not self.settings.made_scaler:
            self.plan.autocast_dtype = None  # gradients would vanish without a scaler

    def _updated(self, number: int) -> None:
        if self.models.updated(self._changes):
            self._settle()

    def _new_optimizer(self) -> None:
        """Look again for models: the script may train one after the other."""
        if not self.models.look_again():
            self._note_once("the script trains one new model after the other: those from now on stay as they are")
        elif self.models.finding:
            self.optimizers.watch()

    def _settle(self) -> None:
        """Look no longer at what is there once and for all, and say what was applied."""
        if not (self.optimizers.idle and self.models.needed):  # an idle one may train what was not called yet
            self.optimizers.stop_watching()
        self.models.settle(self._changes)
        if not self._told:
            self._told = True
            self._first.undo()
            self._account()
            self._tell(self)
        self.optimizers.forget()  # those that the script gives up shall go

    def _account(self) -> None:
        decided = self.settings.refusals([], self.optimizers.optimizers)
        no_loader = None if self.loaders.seen else NO_LOADER
        missing = not_carried_out(no_loader=no_loader, own_scaler=self.settings.made_scaler)
        for name, value in self.config.items():
            changed = sorted(edits_of(name, value))
            reasons = [missing[field] for field in changed if field in missing]
            reasons += [reason for field in changed if (reason := self._why_not(field)) is not None]
            if changed and (given := self._given(name)) is not None:
                reasons.append(given)
            reasons += [error.message for error in self._misfits(name)]
            if changed and name in decided and name != "optimizer_impl":
                reasons.append(decided[name])
            if "autocast_dtype" in changed and self.settings.own_autocast:
                reasons.append("the script enters torch.autocast itself, and its own holds there")
            if reasons:
                self.refused[name] = reasons[0]
            elif changed:
                self.applied[name] = "" if "loader" not in changed else self._where()

    def _why_not(self, field: str) -> str | None:
        """Return why a part of the plan had nothing to be applied to."""
        if field in ("model_transforms", "tensor_transforms", "autocast_dtype") and not self.models.models:
            return NO_MODEL
        if field == "optimizer":
            return self._why_no_implementation()
        if field != "loader" or self._training() is not None:
            return None
        return UNKNOWN_LOADER if self.loaders.seen else NO_LOADER

    def _why_no_implementation(self) -> str | None:
        """Return why no optimizer updates as the config says, or None; classes without the flag stay as they are."""
        made = self.optimizers.optimizers
        wanted = {name for name, on in self.plan.optimizer.items() if on}
        if any(wanted <= implementations(item) for item in made):
            return None
        kinds = " and ".join(dict.fromkeys(type(item).__name__ for item in made))
        return f"{kinds} does not take it" if made else NO_OPTIMIZER

    def _given(self, name: str) -> str | None:
        """Return why the training loader has no say in an option, or None."""
        seen = self._training()
        if seen is None or name not in OF_BATCH_SAMPLER:
            return None
        return why_batches_are_given(seen.arguments, seen.made_at)

    def _misfits(self, name: str) -> Iterator[WorkloadError]:
        """Yield why the model transforms of an option fit no model; the plan has them in the options' order."""
        found = self.models.misfits()
        index = 0
        for option in sorted(OPTIONS.values(), key=lambda option: option.order):
            if option.name in self.config:
                for _ in plan_for({option.name: self.config[option.name]}).model_transforms:
                    if option.name == name and index in found:
                        yield found[index]
                    index += 1

    def _training(self) -> SeenLoader | None:
        return next((seen for seen in self.loaders.seen if self.loaders.is_training(seen)), None)

    def _where(self) -> str:
        seen = self._training()
        return "" if seen is None else seen.made_at


def run_script(script: Path, arguments: tuple[str, ...], applied: AppliedConfig) -> int:
    """Run the script to its end and return its exit status; its own traceback goes to stderr where it fails."""
    gc.collect()
    gc.freeze()  # what we have imported shall not slow the script's own garbage collections
    with applied:
        try:
            run_as_main(script, arguments, called=str(script))
            applied.finish()
        except SystemExit as error:
            status, message = end_of(error)
            if message:
                print(message, file=sys.stderr)
            if not status:
                applied.finish()
            return status
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                sys.stderr.write(user_traceback(error))
            else:
                traceback.print_exc()
            return 1
    return 0
