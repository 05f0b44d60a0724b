"""From an exception or an exit status to an outcome: by type first, then by text, then by signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from traceback import walk_tb

from autotune.errors import NO_TERMINAL, asks_for_input, text_of
from autotune.records import Failure, Outcome

HOST, DEVICE = "out of host memory", "out of device memory"
TOO_SMALL = "BatchNorm got one value per channel"

TEXTS: tuple[tuple[str, Outcome, str], ...] = (
    # (part of the text in lower case, outcome, reason); looked for in the errors of libraries only, in this order
    ("illegal memory access", Outcome.CRASHED, "illegal memory access"),
    ("bus error", Outcome.OUT_OF_MEMORY, "out of shared memory"),
    ("unable to allocate shared memory", Outcome.OUT_OF_MEMORY, "out of shared memory"),
    ("unable to open shared memory object", Outcome.OUT_OF_MEMORY, "out of shared memory"),
    ("unable to write to file </torch_", Outcome.OUT_OF_MEMORY, "out of shared memory"),
    ("no space left on device (28)", Outcome.OUT_OF_MEMORY, "out of shared memory"),
    ("is killed by signal: killed", Outcome.OUT_OF_MEMORY, HOST),
    ("is killed by signal", Outcome.CRASHED, "a loader worker crashed"),
    ("exited unexpectedly", Outcome.ERROR, "a loader worker exited unexpectedly"),
    ("defaultcpuallocator: can't allocate memory", Outcome.OUT_OF_MEMORY, HOST),
    ("cannot allocate memory", Outcome.OUT_OF_MEMORY, HOST),
    ("unable to allocate", Outcome.OUT_OF_MEMORY, HOST),
    ("std::bad_alloc", Outcome.OUT_OF_MEMORY, HOST),
    ("alloc_failed", Outcome.OUT_OF_MEMORY, DEVICE),
    ("_status_not_initialized", Outcome.OUT_OF_MEMORY, f"{DEVICE}?"),  # of a handle that found no memory, nearly always
    ("nvml_success == r internal assert failed", Outcome.OUT_OF_MEMORY, DEVICE),
    ("out of memory", Outcome.OUT_OF_MEMORY, DEVICE),
    # cuDNN says this where a workspace does not fit, and also for what it truly cannot do
    ("cudnn_status_not_supported", Outcome.OUT_OF_MEMORY, f"{DEVICE}?"),
    ("too many open files", Outcome.ERROR, "too many open files"),
    ("received 0 items of ancdata", Outcome.ERROR, "too many open files"),
)

GRAVEST = (Outcome.OUT_OF_MEMORY, Outcome.CRASHED, Outcome.ERROR, Outcome.UNSUPPORTED)

COMPILER = ("torch._dynamo.", "torch._inductor.")
"""modules of the exceptions that say that torch.compile cannot do it"""

ENDED = "the process ended"
DAMAGED = "the trial left a damaged record"

ADVICE = {
    ENDED: "Something in it ends the process at once, as os._exit() does: leave that out, or let it train longer.",
    DAMAGED: "Its code wrote over the record, or tells a figure that cannot be, such as what count_samples returns.",
    "out of shared memory": "Loader workers pass batches through /dev/shm: enlarge it (docker run --shm-size=8g), "
    "or use fewer workers or a smaller prefetch_factor.",
    "too many open files": "Raise the limit (ulimit -n), or use fewer workers.",
    "a loader worker exited unexpectedly": "The dataset or collate_fn ended the process; num_workers=0 shows where.",
    "input was asked for": NO_TERMINAL,
    TOO_SMALL: "The last batch of an epoch may have one sample: drop_last=True (DataLoader, Workload) leaves it out.",
}


@dataclass(frozen=True)
class Classified:
    """What an error or exit means."""

    outcome: Outcome
    reason: str

    @property
    def advice(self) -> str:
        return ADVICE.get(self.reason, ADVICE[ENDED] if self.reason.startswith(ENDED) else "")


def classify_error(error: BaseException) -> Classified:
    """Return what an exception of a trial means; the gravest of its chain counts."""
    return _decisive(error)[1]


def culprit(error: BaseException) -> BaseException:
    """Return the exception of the chain that decides: an error while handling another would hide that one."""
    return _decisive(error)[0]


def classify_exit(status: int) -> Classified:
    """Return what a wait status means for a trial that left no record."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return Classified(Outcome.OUT_OF_MEMORY, f"{HOST}?")  # nobody else sends it: the kernel's OOM killer
        if number == signal.SIGBUS:
            return Classified(Outcome.OUT_OF_MEMORY, "out of shared memory")
        return Classified(Outcome.CRASHED, f"killed by signal {number} ({signal.Signals(number).name})")
    return Classified(Outcome.ERROR, f"{ENDED} with status {os.waitstatus_to_exitcode(status)}")


def failure(found: Classified, message: str, traceback: str = "", phase: str = "") -> Failure:
    """Return the record's account of a failed trial, with advice where there is some."""
    text = "\n".join(part for part in (message, found.advice) if part)
    return Failure(reason=found.reason, message=text, traceback=traceback, phase=phase)


def _decisive(error: BaseException) -> tuple[BaseException, Classified]:
    pairs = [(item, _classify_one(item)) for item in _chain(error)]
    found = [(item, meaning) for item, meaning in pairs if meaning is not None]
    # a DataLoader says that a worker "exited unexpectedly", from the error that names its signal
    found.sort(key=lambda pair: GRAVEST.index(pair[1].outcome))
    return next(iter(found), (error, Classified(Outcome.ERROR, type(error).__name__)))


def _classify_one(error: BaseException) -> Classified | None:
    if isinstance(error, MemoryError):
        return Classified(Outcome.OUT_OF_MEMORY, HOST)
    if asks_for_input(error):
        return Classified(Outcome.ERROR, "input was asked for")
    if isinstance(error, ValueError) and "more than 1 value per channel" in text_of(error) and _raised_by_torch(error):
        return Classified(Outcome.ERROR, TOO_SMALL)
    # torch.OutOfMemoryError by name: the steering process reads outcomes without torch
    if any(kind.__name__ == "OutOfMemoryError" and kind.__module__.startswith("torch") for kind in type(error).__mro__):
        return Classified(Outcome.OUT_OF_MEMORY, DEVICE)
    if not isinstance(error, RuntimeError | OSError | SystemError):
        return None  # a user's ValueError that speaks of memory is an error of theirs
    text = text_of(error).lower()
    found = next((Classified(outcome, reason) for part, outcome, reason in TEXTS if part in text), None)
    if found is None and type(error).__module__.startswith(COMPILER):
        return Classified(Outcome.UNSUPPORTED, "torch.compile failed")
    return found


def _raised_by_torch(error: BaseException) -> bool:
    places = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return bool(places) and places[-1].startswith("torch.")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and those that led to it, the last one first; those of a group come after it."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if (before := current.__cause__ or current.__context__) is not None:
            waiting.append(before)
        if isinstance(current, BaseExceptionGroup):
            waiting += reversed(current.exceptions)
