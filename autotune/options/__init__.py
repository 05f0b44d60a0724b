"""The options that can be tuned: the registry. A new option is a module here and its line below."""

from __future__ import annotations

import difflib

from autotune.errors import ConfigError
from autotune.options.accumulation import Accumulation
from autotune.options.activation_memory_budget import ActivationMemoryBudget
from autotune.options.base import Context, Effect, Inapplicable, Maths, Option, Value
from autotune.options.batch_size import BatchSize
from autotune.options.cache_dataset import CacheDataset
from autotune.options.channels_last import ChannelsLast
from autotune.options.checkpoint_segments import CheckpointSegments
from autotune.options.compile_mode import CompileMode
from autotune.options.cudnn_benchmark import CudnnBenchmark
from autotune.options.deterministic import Deterministic
from autotune.options.device_prefetch import DevicePrefetch
from autotune.options.drop_last import DropLast
from autotune.options.expandable_segments import ExpandableSegments
from autotune.options.inplace_activations import InplaceActivations
from autotune.options.matmul_precision import MatmulPrecision
from autotune.options.multiprocessing_context import MultiprocessingContext
from autotune.options.num_threads import NumThreads
from autotune.options.num_workers import NumWorkers
from autotune.options.optimizer_impl import OptimizerImpl
from autotune.options.persistent_workers import PersistentWorkers
from autotune.options.pin_memory import PinMemory
from autotune.options.precision import Precision
from autotune.options.prefetch_factor import PrefetchFactor
from autotune.options.worker_affinity import WorkerAffinity

__all__ = ["OPTIONS", "Context", "Effect", "Inapplicable", "Maths", "Option", "Value", "option_named"]

OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        BatchSize(),
        Accumulation(),
        Precision(),
        MatmulPrecision(),
        NumWorkers(),
        PrefetchFactor(),
        PersistentWorkers(),
        PinMemory(),
        DevicePrefetch(),
        DropLast(),
        MultiprocessingContext(),
        WorkerAffinity(),
        CacheDataset(),
        ChannelsLast(),
        CheckpointSegments(),
        InplaceActivations(),
        OptimizerImpl(),
        CompileMode(),
        ActivationMemoryBudget(),
        CudnnBenchmark(),
        Deterministic(),
        ExpandableSegments(),
        NumThreads(),
    )
}
"""every option by name, in the order in which people read them"""


def option_named(name: str) -> Option:
    """Return the option called `name`.

    Raises:
        ConfigError: there is none; names the nearest one.
    """
    if name in OPTIONS:
        return OPTIONS[name]
    near = difflib.get_close_matches(name, OPTIONS, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Options: {', '.join(OPTIONS)}"
    raise ConfigError(f"unknown option: {name}", hint=hint)
