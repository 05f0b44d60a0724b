"""What the probe found out about a workload: plain facts that cross from the trial process to the steering one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ScriptFacts:
    """How a script without a workload trains, as seen while it ran."""

    loader: int | None = None
    """number of the training DataLoader, in the order in which the script makes them; None: it has none"""
    made_at: str = ""
    """where the script makes that loader, as "train.py:12" """
    beside: str = ""
    """the loader over other data that is read in turn with it, as "the loader of train.py:13"; empty: there is none"""
    optimizer: int = 0
    """number of the optimizer, in the order of their first steps, whose update ends a step without a loader"""
    updates_per_step: int = 1
    """of all optimizers together"""
    batches_per_update: int = 1
    """where the script accumulates gradients"""
    samples_per_step: int = 1
    """of a step that is found by its update; 1 where nobody knows"""
    no_loader: str = ""
    """why a step is not one on a batch of a loader that the script has; empty: it is, or the script has none"""

    @property
    def size_of_step(self) -> str:
        """What is known of the samples of a step, in words."""
        known = self.samples_per_step > 1
        return f"{self.samples_per_step} samples a step" if known else "a step counts as one sample"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One workload on one device, as seen by building it once and running one step."""

    # the device
    device: str
    """as torch names it: "cpu", "cuda:0" """
    device_name: str
    device_memory_bytes: int | None = None
    """total memory of the accelerator; None on the CPU"""
    device_free_bytes: int | None = None
    default_threads: int = 1
    """intra-op threads that torch would use unasked"""
    native_bf16: bool = False
    native_fp16: bool = False
    capability: tuple[int, int] | None = None
    """CUDA compute capability; None on anything but an NVIDIA card"""
    matmul_precision: str = "highest"
    """torch's float32 matmul precision as the script leaves it"""
    allocator_refused: str | None = None
    """why the allocator's settings are not ours to choose; None where they are"""
    deterministic: bool = False
    """the script asks for deterministic algorithms"""

    # the data
    dataset_length: int | None = None
    """samples in an epoch; None where nobody knows"""
    drop_last: bool = False
    custom_loader: bool = False
    iterable: bool = False
    batch_structure: str = ""
    sample_bytes: int = 0
    tensors_per_batch: int = 1
    on_accelerator: bool = False
    """batches of the loader hold tensors that lie on an accelerator already"""
    fixed_batch: str | None = None
    """why the batch size has no effect; None where it has"""
    workers_refused: str | None = None
    """why loader workers cannot be used; None where they can"""
    start_method: str = "fork"
    """how Python starts loader workers unasked"""
    fork_only: str | None = None
    """why workers can be started by fork alone; None where any method works"""
    threads: int = 0
    """threads of Python that the workload's own code started"""
    cache_refused: str | None = None
    """why samples cannot be kept after they were first read; None where they can"""
    cache_sample_bytes: int = 0
    """host memory that one kept sample takes"""
    variable_shapes: bool = False
    seeded_generators: tuple[str, ...] = ()
    """attributes of the dataset that hold a random generator: each worker would repeat the same numbers"""

    # the model
    model: str = ""
    parameters: int = 0
    trainable_parameters: int = 0
    parameter_bytes: int = 0
    trained_formats: tuple[str, ...] = ()
    """floating-point formats of the trainable parameters, as "float32"; empty: not known"""
    convolution_ranks: tuple[int, ...] = ()
    """ranks of the convolution weights found: 3 (1-d), 4 (2-d), 5 (3-d)"""
    batchnorm: bool = False
    chain: str | None = None
    """module path of the blocks that can be recomputed"""
    chain_length: int = 0
    chain_kind: str = ""
    """"blocks" (one segment a block) or "sequential" (segments of several layers)"""
    chain_refused: str | None = None
    """why there is nothing to recompute, or why recomputing it would change the gradients"""
    checkpoint_blocks: str | None = None
    """what the workload names as the path of these blocks; None: they were found by looking"""
    inplace: str = ""
    """value of inplace_activations that leaves the gradients as they are; empty: there is none"""
    inplace_refused: str | None = None
    """why there is none"""
    inplace_recomputed: bool = False
    """whether that is so where blocks are recomputed, too"""
    optimizer: str = ""
    optimizer_impls: tuple[str, ...] = ()
    """implementations of torch.optim that it takes here, beside its default"""
    optimizer_impls_refused: str | None = None
    """why there are none"""
    default_optimizer: bool = False
    """the workload names no optimizer, so that the tool chose one"""

    # the step
    step: str = ""
    """how the loss is found, in words"""
    loss_reduction: str = ""
    """over the samples of a batch: "mean", "sum" or "other" (over tokens, perhaps); empty: not known"""
    own_step: bool = False
    """the training step does its own backward and optimizer steps"""
    uses_tuned_autocast: bool = True
    own_autocast: bool = False
    own_scaler: bool = False
    compiled: bool = False
    """the model or step calls torch.compile itself"""
    compile_refused: str | None = "nobody looked whether torch.compile works here"
    """why torch.compile cannot be used; None where it can"""
    draws_random: bool = False
    """the model draws random numbers, as dropout does"""
    synchronizes: tuple[str, ...] = ()
    """places where the model waits for the accelerator: "train.py, line 12" """
    moves_parameters: bool = False
    """parameters lie elsewhere after a step than before it"""

    # a script that runs as it is
    script: ScriptFacts | None = None
    """None: the workload comes from factories"""
    not_carried_out: Mapping[str, str] = field(default_factory=dict)
    """fields of the `Plan` that are not carried out on the script, and why"""
    refused: Mapping[str, str] = field(default_factory=dict)
    """options that do not apply to the script, by name, and why"""

    # seconds of this one run, for a first idea of costs
    import_s: float = 0.0
    build_s: float = 0.0
    sample_load_s: float = 0.0
    sample_compute_s: float = 0.0
    probe_batch: int = 1
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """what the user runs today, from the Workload and the command line"""

    @property
    def is_accelerator(self) -> bool:
        """Whether the device is one, rather than the host itself."""
        return self.device != "cpu"
