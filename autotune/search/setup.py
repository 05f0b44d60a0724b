"""Before the first trial: probe the workload, make the space, set the limits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from autotune.documents import LARGEST, from_plain
from autotune.errors import AutotuneError, DoesNotFit, ScriptError, UsageError
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.options.accumulation import check_effective_batch, samples_per_update
from autotune.options.base import Context, Value
from autotune.options.space import Space, make_space
from autotune.records import Limits, Outcome, RunInfo, Source, TrialRecord, TrialSpec
from autotune.trials.folder import RunFolder
from autotune.trials.lock import DeviceLocks
from autotune.trials.runner import Runner, silent

DEVICE_SHARE = 0.9  # of the free device memory, unless the user names a limit
HOST_SHARE = 0.8  # of the available host memory, always
HEADROOM = 0.05  # kept below the limits for what a long run still meets
PROBE_TIMEOUT_S = 300.0
GIB = 1 << 30
MOST = 1 << 40  # of seconds, steps, epochs, sizes: more of them is a slip, and later arithmetic would stumble over it
PACE = ("build_s", "sample_load_s", "sample_compute_s")
"""facts that each probe measures anew"""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the user asked of a search, beside the workload."""

    device: str = ""
    baseline: Mapping[str, Value] = field(default_factory=dict)
    fixed: Mapping[str, Value] = field(default_factory=dict)
    restricted: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    excluded: Sequence[str] = ()
    allowed: frozenset[str] = frozenset()
    max_batch: int | None = None
    batch_step: int = 8
    effective_batch: int | None = None
    """samples per optimizer step, to be made of batch size x accumulation"""
    keep_batch: bool = False
    """batch size and accumulation stay as the baseline has them"""
    memory_limit_bytes: int | None = None
    host_memory_limit_bytes: int | None = None
    headroom: float = HEADROOM
    trial_timeout_s: float = 300.0
    trial_budget_s: float = 15.0
    trial_budget_max_s: float = 120.0
    trials: int = 24
    space_trials: int | None = None
    """budget that the space is made for: a resumed search keeps that of its beginning; None: `trials`"""
    limits: Limits | None = None
    """of the search that is resumed, which hold on; None: they follow from the memory that is free"""
    timeout_s: float | None = None
    steps: int | None = None
    """of the baseline's optimizer, that the user is going to train; None: not said"""
    epochs: float | None = None
    """the same in epochs"""
    seed: int = 0
    sampler: str = "structured"
    objective: str = "throughput"
    keep: float = 0.95
    """share of the best throughput that the memory objective must keep"""
    target: float = 0.03
    lock: bool = True
    """keep other searches off the device meanwhile"""
    wait: bool = False
    """wait for the device rather than be refused"""
    sandbox: bool = True
    """what trials write goes to a scratch folder"""
    wait_idle_s: float | None = None
    """seconds to wait for a quiet machine before each trial; None: do not"""

    def __post_init__(self) -> None:
        """Refuse numbers that no machine and nobody's patience can mean; says by which flag.

        Raises:
            UsageError: there is one.
        """
        for item in fields(self):
            value = getattr(self, item.name)
            most = LARGEST - 1 if item.name.endswith("_bytes") or item.name == "seed" else MOST
            if isinstance(value, int | float) and not -most <= value <= most:
                flag = item.name.removesuffix("_s").removesuffix("_bytes").replace("_", "-")
                raise UsageError(f"--{flag} {value:g} is out of range", hint=f"It may be up to {most:.3g}.")

    @property
    def keeps_batch(self) -> bool:
        """Whether no other batch size than the baseline's can be an answer."""
        return self.keep_batch or self.objective == "latency"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A workload that was probed, with the space that follows."""

    source: Source
    facts: Facts
    machine: Machine
    space: Space
    limits: Limits
    accelerator: bool
    planned_samples: int | None = None
    """of the training that the user plans; the start is spread over them"""
    script_hash: str = ""
    """of the script as it was when the probe imported it"""


def prepare(
    source: Source,
    wishes: Wishes,
    runner: Runner,
    folder: RunFolder,
    report: Callable[..., None] = silent,
    locks: DeviceLocks | None = None,
    earlier: RunInfo | None = None,
) -> Prepared:
    """Probe the workload and decide what can be searched.

    Args:
        locks: take the device's; None: nothing will be measured.
        earlier: the search that is resumed. What its probe measured holds on: choices may follow from it.

    Raises:
        DeviceBusy: another search measures on the device.
        ScriptError: the user's code failed; carries its traceback.
        WorkloadError: the workload cannot be trained as it is.
        UsageError: options that do not fit it, or no baseline batch size.
    """
    if locks is not None:
        locks.take(wishes.device)  # before anything is read: what is free changes while a search waits
    check_batch_wishes(wishes)
    machine = Machine.read()
    limits = _limits(wishes, machine, None)
    script = script_hash(source)
    spec = TrialSpec(
        number=0,
        kind="probe",
        config={},
        baseline=wishes.baseline,
        source=source,
        device=wishes.device,
        limits=Limits(host_bytes=limits.host_bytes, timeout_s=max(PROBE_TIMEOUT_S, wishes.trial_timeout_s)),
        record_path=str(folder.probe_record.resolve()),
        seed=wishes.seed,
    )
    record = runner.run(spec, folder.probe_log, report)
    if record.outcome is not Outcome.OK or record.facts is None:
        raise refusal(record, source, folder.probe_log)
    facts: Facts = from_plain(Facts, record.facts)
    if earlier is not None:
        facts = replace(facts, **{name: earlier.facts[name] for name in PACE if name in earlier.facts})
    if locks is not None:
        locks.take(facts.device)
    baseline = dict(facts.baseline)
    if "batch_size" not in baseline:
        if not facts.fixed_batch:
            raise UsageError(
                "no baseline batch size: autotune compares with what you run today",
                hint="Give it: --baseline batch_size=64, or Workload(baseline={'batch_size': 64}).",
            )
        baseline["batch_size"] = 1
    planned = planned_samples(wishes, facts, samples_per_update(baseline))
    context = Context(
        facts=facts,
        machine=machine,
        baseline=baseline,
        max_batch=wishes.max_batch,
        batch_step=wishes.batch_step,
        effective_batch=wishes.effective_batch,
        allowed=wishes.allowed,
        trials=wishes.space_trials or wishes.trials,
        planned_samples=planned,
        host_bytes=limits.host_bytes,
    )
    check_effective_batch(context)
    fixed, restricted, excluded = _with_the_batch(wishes, baseline["batch_size"])
    space = make_space(context, fixed=fixed, restricted=restricted, excluded=excluded)
    return Prepared(
        source=source,
        facts=facts,
        machine=machine,
        space=space,
        limits=_limits(wishes, machine, facts),
        accelerator=facts.is_accelerator,
        planned_samples=planned,
        script_hash=script,
    )


def check_batch_wishes(wishes: Wishes) -> None:
    """Raise UsageError where what the user wants of the batch size contradicts itself."""
    if not wishes.keep_batch:
        return
    if wishes.effective_batch is not None:
        raise UsageError(
            "--keep-batch keeps the batch as it is; --effective-batch N searches how to split one",
            hint="Give one of them. To split the baseline's own batch, name its size: --effective-batch N.",
        )
    if "batch_size" in {*wishes.fixed, *wishes.restricted, *wishes.excluded}:
        raise UsageError(
            "--keep-batch keeps the baseline's batch size, and it is named by --fix, --choices or --exclude too",
            hint="Give one of them.",
        )


def _with_the_batch(
    wishes: Wishes, batch_size: Value
) -> tuple[dict[str, Value], dict[str, Sequence[Value]], list[str]]:
    """Return what is fixed, restricted and excluded, where the baseline's batch size is kept as well.

    Latency compares steps of one batch size: the choices that the user gave it are no answers there.

    Raises:
        UsageError: latency is asked for, and another batch size.
    """
    fixed, restricted, excluded = dict(wishes.fixed), dict(wishes.restricted), list(wishes.excluded)
    if wishes.keeps_batch:
        if (asked := fixed.get("batch_size", batch_size)) != batch_size:
            raise UsageError(
                f"--objective latency compares steps of the baseline's batch size, which is {batch_size}, not {asked}",
                hint=f"Name the baseline's: --baseline batch_size={asked}, or leave --fix batch_size out.",
            )
        restricted.pop("batch_size", None)
        excluded = [name for name in excluded if name != "batch_size"]
        fixed["batch_size"] = batch_size
    return fixed, restricted, excluded


def planned_samples(wishes: Wishes, facts: Facts, samples_per_step: int) -> int | None:
    """Return how many samples the user is going to train on; None where that was not said.

    Args:
        samples_per_step: of the baseline, whose steps `--steps` counts.

    Raises:
        UsageError: both steps and epochs, or epochs of data whose length nobody knows.
    """
    if wishes.steps is not None and wishes.epochs is not None:
        raise UsageError("--steps and --epochs both say how long you train: give one of them")
    if wishes.steps is not None:
        return wishes.steps * samples_per_step
    if wishes.epochs is None:
        return None
    if facts.dataset_length is None:
        raise UsageError("--epochs: nobody knows how long an epoch of this data is", hint="Give --steps instead.")
    return max(1, round(wishes.epochs * facts.dataset_length))


def deciding_limit(limits: Limits, accelerator: bool) -> int:
    """Return the bytes that decide whether a config fits: of the accelerator, or of the host."""
    return limits.device_bytes if accelerator and limits.device_bytes else limits.host_bytes


def script_hash(source: Source) -> str:
    """Return the SHA-256 of the script's text; empty where there is no script, or none any more."""
    try:
        return hashlib.sha256(Path(source.script).read_bytes()).hexdigest() if source.script else ""
    except OSError:
        return ""


def _limits(wishes: Wishes, machine: Machine, facts: Facts | None) -> Limits:
    """Return the memory that a trial may use, headroom already taken off.

    Raises:
        UsageError: a search is resumed, and the memory that its trials were allowed is not free now.
    """
    keep = 1 - wishes.headroom
    host = wishes.host_memory_limit_bytes or int(HOST_SHARE * machine.available_bytes)
    device = None
    if facts is not None and not facts.is_accelerator and wishes.memory_limit_bytes is not None:
        host = min(host, wishes.memory_limit_bytes)
    elif facts is not None and (limit := wishes.memory_limit_bytes or _share(facts.device_free_bytes)) is not None:
        device = int(keep * limit)
    host = int(keep * host)
    if (earlier := wishes.limits) is not None:
        host = _as_before("host", earlier.host_bytes, host, machine.available_bytes)
        if device is not None and facts is not None:
            device = _as_before("device", earlier.device_bytes or device, device, facts.device_free_bytes or 0)
    return Limits(
        host_bytes=host,
        device_bytes=device,
        timeout_s=wishes.trial_timeout_s,
        budget_s=wishes.trial_budget_s,
        budget_max_s=wishes.trial_budget_max_s,
    )


def _share(free_bytes: int | None) -> float | None:
    """Return what may be used of an accelerator's free memory; None where it does not tell."""
    return None if free_bytes is None else DEVICE_SHARE * free_bytes


def _as_before(memory: str, then: int, now: int, free: int) -> int:
    """Return the limit of the earlier search, by which its trials were judged.

    Args:
        now: what the limit would be now.
        free: the memory that there is now.
    """
    if then > max(now, free):
        raise UsageError(
            f"the search cannot be resumed: its trials were allowed {then / GIB:.2f} GiB of {memory} memory, "
            f"and {free / GIB:.2f} GiB are free now",
            hint="Free the memory, or start anew with --force.",
        )
    return then


def refusal(record: TrialRecord, source: Source, log: Path) -> AutotuneError:
    """Return the error that says why a workload did not come to its first step."""
    trouble = record.failure
    assert trouble is not None
    name = Path(source.script).name or "the workload"
    message, _, hint = (trouble.message or trouble.reason).partition("\n")
    if trouble.phase == "device":
        return UsageError(message, hint=hint)
    if record.outcome is Outcome.OUT_OF_MEMORY:
        message = f"{name} does not fit even at the smallest batch: {message}"
        return DoesNotFit(message, hint=hint, traceback=trouble.traceback)
    if record.outcome is Outcome.TIMEOUT:
        where = f" (phase: {trouble.phase})" if trouble.phase else ""
        return ScriptError(f"{name} did not come to its first step: {message}{where}", hint=hint)
    if not message.startswith(name):
        message = f"{name} cannot be trained: {message}"
    if "sys.exit" in message and (printed := _last_line(log)):
        message = f"{message}, and printed: {printed}"
    return ScriptError(message, hint=hint, traceback=trouble.traceback)


def _last_line(log: Path) -> str:
    """Return the last line that the script printed: what argparse missed, for one."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].rpartition("error: ")[2].strip() if lines else ""
