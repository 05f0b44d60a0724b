"""Activation checkpointing of any model's repeated blocks, or of an nn.Sequential, in place.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost". Non-reentrant, with the random state of dropout
kept, BatchNorm's statistics updated once, and state_dict keys as they were.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from autotune.errors import WorkloadError

MIN_BLOCKS = 2
MIN_LAYERS = 4  # a shorter nn.Sequential has nothing to gain from segments
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class Chain:
    """Modules that run one after the other."""

    path: str
    """of the container in the model; empty: the model itself"""
    container: nn.Module

    @property
    def sequential(self) -> bool:
        """Whether the container runs its modules itself, so that several can share a segment."""
        return type(self.container).forward is nn.Sequential.forward

    @property
    def kind(self) -> str:
        return "sequential" if self.sequential else "blocks"

    @property
    def blocks(self) -> list[nn.Module]:
        return list(self.container.children())

    def __len__(self) -> int:
        return len(self.blocks)


def find_chain(model: nn.Module, path: str | None = None) -> Chain | None:
    """Return the longest chain of repeated blocks, else the largest nn.Sequential; None where there is neither.

    `path` names the container instead.

    Raises:
        WorkloadError: the model has no ModuleList or Sequential at `path`.
    """
    if path is not None:
        modules = dict(model.named_modules())
        container = modules.get(path)
        if not isinstance(container, nn.ModuleList | nn.Sequential):
            raise WorkloadError(f"checkpoint_blocks={path!r} is not a ModuleList or Sequential of the model")
        return Chain(path, container)
    containers = [
        Chain(name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential) and _parameters(module)
    ]
    repeated = [chain for chain in containers if _repeats(chain)]
    if repeated:
        return max(repeated, key=lambda chain: (len(chain), _parameters(chain.container)))
    layered = [chain for chain in containers if chain.sequential and len(chain) >= MIN_LAYERS]
    return max(layered, key=lambda chain: _parameters(chain.container), default=None)


def checkpoint_chain(model: nn.Module, segments: int, path: str | None = None) -> nn.Module:
    """Recompute `segments` segments of the model's chain in the backward pass; changes the model in place.

    In an nn.Sequential a segment is several layers, and the last one is kept, since its activations are needed at
    once. In a ModuleList a segment is one block, called with whatever arguments the model gives it.
    """
    chain = find_chain(model, path)
    if chain is None:
        raise WorkloadError("the model has no chain of blocks that could be recomputed")
    if chain.sequential:
        chain.container.forward = _InSegments(chain.container, min(segments, len(chain)))
        return model
    blocks = chain.blocks
    count = min(segments, len(blocks))
    for block in {
        id(blocks[i * len(blocks) // count]): blocks[i * len(blocks) // count] for i in range(count)
    }.values():
        block.forward = _Recomputed(block)
    return model


# objects rather than bound methods or closures: in a deep copy of the model (an average of weights) they belong to the
# copy, and a model saved whole can be loaded again


class _Recomputed:
    """The forward of a block whose activations are not kept."""

    def __init__(self, block: nn.Module) -> None:
        self._block = block

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        block = self._block
        forward = partial(type(block).forward, block)
        if not (block.training and torch.is_grad_enabled()):
            return forward(*args, **kwargs)
        return _checkpointed(forward, [block], *args, **kwargs)


class _InSegments:
    """The forward of an nn.Sequential in segments, of which the last one's activations are kept."""

    def __init__(self, container: Any, count: int) -> None:
        self._container = container
        self._count = count

    def __call__(self, input: Tensor) -> Any:
        layers = list(self._container)
        if not (self._container.training and torch.is_grad_enabled()):
            return _run(layers, input)
        bounds = [len(layers) * index // self._count for index in range(self._count + 1)]
        for start, end in pairwise(bounds[:-1]):
            segment = layers[start:end]
            input = _checkpointed(partial(_run, segment), segment, input)
        return _run(layers[bounds[-2] :], input)


def _run(layers: list[nn.Module], input: Any) -> Any:
    for layer in layers:
        input = layer(input)
    return input


def _checkpointed(function: Any, modules: list[nn.Module], *args: Any, **kwargs: Any) -> Any:
    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _StatisticsKept(modules)

    if torch.compiler.is_compiling():
        # the partitioner recomputes no update of a buffer, keeps the random state, and takes no other contexts
        return checkpoint(function, *args, use_reentrant=False, **kwargs)

    def called(*values: Any) -> Any:
        return function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    # by position, since torch keeps the random state of the devices of such arguments alone
    given = (*args, *kwargs.values())
    return checkpoint(called, *given, use_reentrant=False, preserve_rng_state=True, context_fn=contexts)


class _StatisticsKept(AbstractContextManager[None]):
    """Lets a second forward leave no trace in BatchNorm: it works on copies of the running statistics.

    Entered once for each backward pass: there may be several, and one in another.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        self._modules = modules
        self._kept: list[list[tuple[nn.Module, str, Tensor]]] = []

    def __enter__(self) -> None:
        kept: list[tuple[nn.Module, str, Tensor]] = []
        self._kept.append(kept)
        for root in self._modules:
            for module in root.modules():
                if isinstance(module, _NormBase):
                    for name in STATISTICS:
                        buffer = getattr(module, name, None)
                        if isinstance(buffer, Tensor):
                            kept.append((module, name, buffer))
                            setattr(module, name, buffer.clone())

    def __exit__(self, *_: object) -> None:
        for module, name, buffer in self._kept.pop():
            setattr(module, name, buffer)


def _repeats(chain: Chain) -> bool:
    """Whether the chain is of repeated blocks of one class, each of them more than a single layer."""
    blocks = chain.blocks
    kinds = {type(block) for block in blocks}
    return len(blocks) >= MIN_BLOCKS and len(kinds) == 1 and any(True for _ in blocks[0].children())


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if not _uninitialized(parameter))


def _uninitialized(parameter: Tensor) -> bool:
    return isinstance(parameter, nn.parameter.UninitializedParameter)
