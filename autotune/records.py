"""What crosses a process or a file: the spec of a trial and its record. Their JSON is in documents.py.

Format history
1  first
"""

from __future__ import annotations

import enum
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.facts import ScriptFacts
from autotune.numerics import Numerics, Task

FORMAT = 1


class Outcome(enum.StrEnum):
    """How a trial ended."""

    OK = "ok"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    NON_FINITE = "non_finite"
    ERROR = "error"
    UNSUPPORTED = "unsupported"
    PRUNED = "pruned"

    @property
    def measured(self) -> bool:
        """Whether the trial yields a step time: a clearly slower one stops early and keeps its estimate."""
        return self in (Outcome.OK, Outcome.PRUNED)

    @property
    def settles(self) -> bool:
        """Whether it says of the config itself how fast it is, or that it does not fit: no stray failure."""
        return self.measured or self is Outcome.OUT_OF_MEMORY


INPUT_BOUND = 0.10  # of a step lost to the loader, from which on it is called input-bound

HARD_FLAGS = frozenset({"cpu_contended_hard", "gpu_shared", "gpu_throttled", "memory_pressure", "no_steady_state"})
"""signs that a time is not that of the config alone"""

REPEAT = "repeat"
"""kind of a trial that measures again what was disturbed, and counts in its place"""

NOT_SCREENING = frozenset({"probe", "verification", "numerics"})
"""kinds of records that are no trial of the search"""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One timed block of steps."""

    steps: int
    samples: int
    wall_s: float
    wait_s: float
    """of `wall_s`, spent inside the loader's `next`"""


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Peak memory of one phase of a trial, bytes."""

    host: int = 0
    """VmHWM of the training process plus what the loader workers hold alone"""
    tree_pss: int = 0
    """largest sampled sum of proportional set sizes over all processes; 0: not sampled"""
    allocated: int = 0
    """live tensors on the accelerator"""
    reserved: int = 0
    """what torch's allocator holds there, cached and fragmented memory included"""
    process: int = 0
    """the whole process on the accelerator, as the driver counts it; 0: unknown"""
    outside_torch: int = 0
    """of `process`, what torch's allocator does not hold: context, handles, loaded kernels"""

    def needed(self, accelerator: bool) -> int:
        """Return the bytes that decide whether a config fits, on the accelerator or on the host."""
        return self.reserved + self.outside_torch if accelerator else max(self.host, self.tree_pss)


@dataclass(frozen=True, kw_only=True)
class Phases:
    """Seconds that each phase of a trial took."""

    import_s: float = 0.0
    build_s: float = 0.0
    cache_s: float = 0.0
    """filling the cache of samples, or a part that stands for it"""
    first_batch_s: float = 0.0
    """start of the loader until its first batch"""
    first_step_s: float = 0.0
    warmup_s: float = 0.0
    drain_s: float = 0.0
    window_s: float = 0.0
    cached_s: float = 0.0
    memory_s: float = 0.0
    epoch_s: float = 0.0
    total_s: float = 0.0
    """the child's whole life, import and build included"""


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """What torch.compile did in a trial."""

    seconds: float
    graphs: int
    """compiled, recompilations included"""
    recompilations: int = 0
    """of these, after the first step: for another shape, or a guard that failed"""
    cached: bool = False
    """a part came from the compile cache of this search, so that a first run takes longer"""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a measured trial yields. Times are in seconds, a step and a sample as defined in measure/."""

    sample_s: float
    """the objective: time per sample, the epoch overhead's share included, and the start's where a plan says how long
    the training will be"""
    step_s: float
    uncertainty: float
    """half-width of the estimate within this run, relative; says nothing about the next run"""
    samples_per_step: float
    wait_s: float
    """per step, inside the loader's `next`"""
    compute_s: float | None
    """per step on cached batches with the loader idle"""
    loader_s: float | None
    """per batch, the loader alone"""
    epoch_overhead_s: float
    epoch_overhead_estimated: bool
    steps_per_epoch: int | None
    samples_per_epoch: int | None
    tokens_per_sample: float | None = None
    cache_fill_s: float = 0.0
    """once, in the first epoch: reading all samples that cache_dataset keeps; a part of `start_s` alone"""
    cache_bytes: int = 0
    """host memory that these take; part of the host's peaks"""
    lifetime: Peaks
    steady: Peaks
    blocks: tuple[Block, ...]
    kept_from: int
    """index of the first block after warm-up truncation"""
    autocorrelation: float
    mean_step_s: float
    p95_step_s: float
    flags: tuple[str, ...]
    unmet: str = ""
    """condition of the stop rule that was not met when the time was up"""
    losses: tuple[float, ...]
    """of the first steps"""
    small_batch: int | None = None
    """batch size of a second, smaller run in the same process, which with this one gives the memory line"""
    small_peak: Peaks | None = None
    updates: int
    """optimizer updates that were really made before the window"""

    compilation: Compilation | None = None
    """None: nothing was compiled"""
    start_s: float = 0.0
    """seconds until the first step is done, building and compiling included, as without a warm compile cache"""
    planned_samples: int | None = None
    """samples of the whole training that the start is spread over in `sample_s`; None: it is not"""
    sm_clock_mhz: int = 0
    """of the card, median in the window; 0: unknown"""

    @property
    def steady_sample_s(self) -> float:
        """The time per sample without the start's share."""
        return self.sample_s - start_share_s(self.start_s, self.planned_samples)

    @property
    def contention_s(self) -> float | None:
        """Per step: what is neither waiting nor undisturbed compute (work slowed by the loader's processes)."""
        return None if self.compute_s is None else self.step_s - self.wait_s - self.compute_s

    @property
    def samples_per_s(self) -> float:
        return 1.0 / self.sample_s

    @property
    def disturbed(self) -> bool:
        """Whether the time is not that of the config alone."""
        return bool(HARD_FLAGS.intersection(self.flags))


def is_input_bound(lost: float, uncertainty: float) -> bool:
    """Return whether a step is bound by its input: loading costs it a tenth, and more than the uncertainty.

    Args:
        lost: share of the step by which it takes longer than on batches that are there already.
        uncertainty: half-width of the step's 95 % interval, relative: about two standard errors.
    """
    return lost > INPUT_BOUND and lost > uncertainty


def start_share_s(start_s: float, planned_samples: int | None) -> float:
    """Return the share of the start in the time of one sample; 0 where nobody said how long the training will be."""
    return start_s / planned_samples if planned_samples else 0.0


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the workload comes from: a script with names in it, or a pickle file."""

    script: str = ""
    arguments: tuple[str, ...] = ()
    workload: str = ""
    """name of the Workload in the script; empty: the one there is"""
    functions: Mapping[str, str] = field(default_factory=dict)
    """names of factory functions by role, as given on the command line"""
    pickle: str = ""
    unmodified: bool = False
    """the script has no workload: it runs as it is, as `__main__`"""

    def run_command(self, config: str) -> str:
        """Return the command that runs an unmodified script with a config file."""
        words = ["autotune", "run", os.path.relpath(self.script), "--config", config]
        return shlex.join([*words, *(["--", *self.arguments] if self.arguments else [])])


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a trial may use."""

    host_bytes: int
    device_bytes: int | None = None
    timeout_s: float = 300.0
    budget_s: float = 15.0
    """measured time in the window"""
    budget_max_s: float = 120.0
    """the same where steps are too slow for the budget"""


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """What the trial process is told."""

    number: int
    kind: str = "trial"
    """"probe", "sketch", "numerics", "doctor", "memory" or "profile"; any other is a measurement, as in its record"""
    config: Mapping[str, Any]
    baseline: Mapping[str, Any]
    source: Source
    device: str
    """as the user named it; empty: the best there is"""
    limits: Limits
    record_path: str
    best_sample_s: float | None = None
    """best time per sample so far; a clearly slower trial stops early. None: never"""
    fixed_blocks: int | None = None
    """verification: measure a window of at least this many blocks, by a plan made beforehand"""
    gradient_names: tuple[str, ...] | None = None
    """parameters that had a gradient in each of the baseline's updates; None: this is the baseline"""
    dataset_length: int | None = None
    fixed_batch: bool = False
    """the batch size has no effect on the batches"""
    small_batch: int | None = None
    """first run a few steps at this batch size and note their peak; None: do not"""
    found: ScriptFacts | None = None
    """how the script trains, where it runs as it is"""
    numerics: Task | None = None
    """for the numerics guard only"""
    planned_samples: int | None = None
    """samples of the whole training, over which the start is spread; None: it is not"""
    known_compile_s: float = 0.0
    """what compiling this config took in an earlier trial, before the compile cache knew it"""
    seed: int = 0
    target: float = 0.03
    """relative half-width at which a window is long enough"""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a trial yields nothing."""

    reason: str
    """short and stable: "cuda out of memory", "killed by signal 11", ... """
    message: str = ""
    """for people: what happened and the way out"""
    traceback: str = ""
    """the user's own, their frames only"""
    phase: str = ""


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One trial, as it stands on disk."""

    format: int = FORMAT
    number: int
    config: Mapping[str, Any]
    outcome: Outcome
    measurement: Measurement | None = None
    failure: Failure | None = None
    facts: Mapping[str, Any] | None = None
    """what the probe found; for the probe only"""
    numerics: Numerics | None = None
    """what the numerics guard found; for its trials only"""
    diagnosis: Mapping[str, Any] | None = None
    """what a look found: of the doctor, of `memory` and of `profile`"""
    gradient_names: tuple[str, ...] | None = None
    phases: Phases = field(default_factory=Phases)
    limits: Limits | None = None
    seed: int = 0
    started_at: float = 0.0
    """seconds since the epoch, by the steering process"""
    wall_s: float = 0.0
    """as the steering process saw it, from request to the last process gone"""
    versions: Mapping[str, str] = field(default_factory=dict)
    kind: str = "trial"
    """"trial", "probe", "baseline", "replicate", "repeat", "verification", "numerics" """


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What a search searched, as it stands in the run folder."""

    format: int = FORMAT
    source: Source
    script_hash: str = ""
    """SHA-256 of the script's text; empty for a workload given from Python"""
    facts: Mapping[str, Any]
    """of the workload, from the probe: the fields of `Facts`"""
    machine: Mapping[str, Any]
    """the fields of `Machine` when the search began"""
    choices: Mapping[str, Any]
    """values by option name"""
    reasons: Mapping[str, str]
    """options that do not apply, and why"""
    baseline: Mapping[str, Any]
    """canonical config of what the user runs today"""
    max_batch: int | None = None
    batch_step: int = 8
    effective_batch: int | None = None
    """samples per optimizer step that every config was to have; None: they were free"""
    limits: Limits
    asked_limits: Mapping[str, Any] = field(default_factory=dict)
    """those that the user named, by name; the others follow from what is free when a search begins"""
    sampler: str
    objective: str = "throughput"
    planned_samples: int | None = None
    """samples that the user is going to train on: --steps or --epochs; None: not said"""
    seed: int
    trials: int
    """asked for"""
    space_trials: int | None = None
    """asked for when the search began, which decides what it tunes"""
    timeout_s: float | None = None
    started_at: float
    study: str = "autotune"
    """name of its study in the storage"""
    command: tuple[str, ...] = ()
    """the command line"""
