"""How a batch becomes a loss: resolved once on the first batch, then fixed, and said in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from autotune.batches import describe
from autotune.errors import WorkloadError
from autotune.workload import Workload

TARGET_KEYS = ("labels", "label", "targets", "target", "y")


class LossStep:
    """(model, batch) -> scalar loss, from the workload's `training_step`, `loss` or the model's own output."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._extract: Callable[[Any], Tensor] | None = None
        self.description = ""
        if workload.training_step is not None:
            self.description = (
                "training_step(tuned, model, batch)" if workload.own_step else "training_step(model, batch)"
            )

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss of one batch.

        Raises:
            WorkloadError: what comes out is not a scalar that a backward pass can start from.
        """
        call = ""
        if self._workload.training_step is not None:
            output = self._workload.training_step(model, batch)
        elif self._workload.loss is not None:
            if self._extract is None:
                _bring_to(model, self._workload.loss)
            output = self._with_loss(model, batch, self._workload.loss)
        else:
            call, output = _forward(model, batch)
        if self._extract is None:
            function = "loss" if self._workload.loss else "training_step" if self._workload.training_step else ""
            self._extract, found = find_loss(output, function)
            self.description = self.description or f"{call}{found}"
        return self._extract(output)

    def _with_loss(self, model: nn.Module, batch: Any, loss: Callable[[Any, Any], Any]) -> Any:
        if isinstance(batch, Mapping):
            key = next((key for key in TARGET_KEYS if key in batch), None)
            if key is None:
                raise WorkloadError(
                    f"loss(output, target) has no target: the batch is {describe(batch)}",
                    hint="Give training_step(model, batch) instead of loss.",
                )
            inputs = {name: value for name, value in batch.items() if name != key}
            self.description = f"loss(model(**batch without {key}), batch[{key!r}])"
            return loss(model(**inputs), batch[key])
        if isinstance(batch, list | tuple) and len(batch) >= 2:
            self.description = "loss(model(*batch[:-1]), batch[-1])"
            return loss(model(*batch[:-1]), batch[-1])
        if not isinstance(batch, Tensor) and hasattr(batch, "y"):
            self.description = "loss(model(batch), batch.y)"
            return loss(model(batch), batch.y)
        if isinstance(batch, list | tuple):
            (batch,) = batch
        self.description = "loss(model(batch), batch)"
        return loss(model(batch), batch)


def _bring_to(model: nn.Module, loss: Callable[..., Any]) -> None:
    """Move a loss that is a module to where the model is: its class weights were made before there was a device."""
    where = next((item.device for item in model.parameters()), None)
    if isinstance(loss, nn.Module) and where is not None:
        loss.to(where)


def _forward(model: nn.Module, batch: Any) -> tuple[str, Any]:
    """Return how the model is called on the batch, and what it returns."""
    if isinstance(batch, Mapping):
        return "model(**batch)", model(**batch)
    if isinstance(batch, list | tuple):
        return "model(*batch)", model(*batch)
    return "model(batch)", model(batch)


def find_loss(output: Any, function: str = "") -> tuple[Callable[[Any], Tensor], str]:
    """Return how to get the scalar loss out of what a step returned, and that in words.

    Args:
        function: which of the user's functions returned it; empty: the model.

    Raises:
        WorkloadError: nothing in it is clearly the loss; shows its structure.
    """
    if _scalar(output):
        return _as_scalar, ""
    if _scalar(getattr(output, "loss", None)):
        return lambda output: _as_scalar(output.loss), ".loss"
    if isinstance(output, Mapping):
        if _scalar(output.get("loss")):
            return lambda output: _as_scalar(output["loss"]), "['loss']"
        if output and all(_scalar(value) for value in output.values()):
            return lambda output: _sum(output), ", all values summed"
    if isinstance(output, tuple) and sum(map(_scalar, output)) == 1:
        index = next(index for index, value in enumerate(output) if _scalar(value))
        return lambda output: _as_scalar(output[index]), f"[{index}]"
    if output is None:
        raise WorkloadError(f"{function or 'the model'} returned None", hint="Does it end without a return?")
    if isinstance(output, float | int):
        raise WorkloadError(
            f"{function or 'the model'} returned a plain number, {output}, which has no gradient",
            hint="Return the loss as a tensor, without .item().",
        )
    if function and isinstance(output, Tensor) and output.ndim == 0:
        raise WorkloadError(
            f"the loss is {describe(output)}: only a floating-point number has a gradient",
            hint="A count, such as the number of right answers, cannot be trained on.",
        )
    if function == "loss":
        raise WorkloadError(
            f"the loss is not a scalar: it is {describe(output)}", hint="Reduce it, as in reduction='mean'."
        )
    if function:
        raise WorkloadError(
            f"nothing in what {function} returned is clearly the loss: it is {describe(output)}",
            hint=f"{function} returns one scalar: the loss to start the backward pass from.",
        )
    raise WorkloadError(
        f"nothing in the model's output is clearly the loss: it is {describe(output)}",
        hint="Give loss=(output, target) -> scalar, or training_step=(model, batch) -> scalar.",
    )


def check_trains(loss: Tensor) -> None:
    """Raise WorkloadError where a backward pass from `loss` would train nothing."""
    if not loss.requires_grad:
        raise WorkloadError(
            "the loss does not depend on the model's trainable parameters",
            hint="Is everything frozen, under torch.no_grad(), or detached on the way to the loss?",
        )


def _scalar(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point()


def _as_scalar(value: Tensor) -> Tensor:
    return value.reshape(())


def _sum(losses: Mapping[Any, Tensor]) -> Tensor:
    return torch.stack([_as_scalar(value) for value in losses.values()]).sum()
