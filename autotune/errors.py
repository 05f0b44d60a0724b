"""What autotune raises. Only the command line turns these into an exit status.

AutotuneError                 every error of ours; one clear message, no traceback needed
├── Unsupported                a config asks for what this workload cannot do: an outcome of its trial, no more
├── UsageError                the command line or a file given to it is wrong (exit 2)
│   ├── ConfigError           a damaged config file, an unknown option or value
│   └── RunFolderError        the run folder cannot be used: exists, read-only, not a run
├── DeviceBusy                another search measures on the device (exit 1)
└── WorkloadError             the user's workload cannot run as it is (exit 1)
    ├── ScriptError           the user's code raised: carries its own traceback
    ├── DoesNotFit            nothing fits into the memory it may use
    └── SearchFailed          every trial fails in the same way
"""

from __future__ import annotations

LONGEST_TEXT = 10_000  # characters; errors exist that print a whole tensor
NO_TERMINAL = "A trial has no terminal: nothing can be asked for there."


def text_of(error: BaseException) -> str:
    """Return the text of any exception, its middle left out where it is very long; one may fail to say what it is."""
    try:
        text = str(error)
    except BaseException as inner:
        return f"(its text cannot be had: {type(inner).__name__})"
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]} [...] {text[-half:]}"


def asks_for_input(error: BaseException) -> bool:
    """Whether an error is what `input()` raises where nobody answers."""
    return isinstance(error, EOFError) and text_of(error) == "EOF when reading a line"


class AutotuneError(Exception):
    """Base of all errors that autotune raises on purpose.

    `hint` is the way out, shown on a line of its own; `traceback` is the user's own, where their code failed.
    """

    exit_status = 1

    def __init__(self, message: str, *, hint: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.traceback = traceback

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class Unsupported(AutotuneError):
    pass


class UsageError(AutotuneError):
    exit_status = 2


class ConfigError(UsageError):
    pass


class RunFolderError(UsageError):
    pass


class DeviceBusy(AutotuneError):
    pass


class WorkloadError(AutotuneError):
    pass


class ScriptError(WorkloadError):
    pass


class DoesNotFit(WorkloadError):
    pass


class SearchFailed(WorkloadError):
    pass
