"""What is told of a script that ends before it could be measured."""

from __future__ import annotations

from autotune.errors import ScriptError, Unsupported
from autotune.scripting.checkpoints import Checkpoints
from autotune.workload.find import EXAMPLE
from autotune.workload.script import brief, user_traceback

LONGER = "Let it train longer: more epochs, or more data."


def too_short(updates: int) -> ScriptError:
    """Of one whose runs are over before anything can be measured."""
    return ScriptError(
        f"the script makes {updates} update{'s' * (updates != 1)} in a run, too few to measure", hint=LONGER
    )


def never_asked() -> ScriptError:
    """Of one that made no update, or none after which it went on."""
    return ScriptError(
        "the script ended without asking its training loader for a batch after an update",
        hint="autotune inspect shows what it found of the script.",
    )


def never_trains(script: str, processes: int, checkpoints: Checkpoints) -> ScriptError:
    """Of one that came to its end without an update, having started so many processes."""
    hint = "Does it need arguments to train? They go after --."
    if processes:
        hint = f"What it trains in processes that it starts ({processes}) is not seen. {hint}"
    return ScriptError(
        f"{script} has no workload, so it was run as it is, and it ended without an update of any optimizer",
        hint=f"{hint}\n{_found_done(checkpoints)}\n{EXAMPLE}",
    )


def trains_once(updates: int, checkpoints: Checkpoints) -> ScriptError:
    """Of one that made no update when it was run again."""
    return ScriptError(
        f"the script ended after {updates} updates, too few to measure, and made none when it was run again: perhaps "
        "it takes up its own checkpoint, and finds that its training is over",
        hint=f"{LONGER}\n{_found_done(checkpoints)}",
    )


def _found_done(checkpoints: Checkpoints) -> str:
    """Return what lets a script train that finds its training done."""
    loaded = str(checkpoints)
    found = (
        f"its training done (it loaded {loaded})" if loaded else "its training done, by a checkpoint of its own, say"
    )
    return f"Did it find {found}? Then give it what lets it begin anew, as another folder for its output."


def trained_too_far(error: Exception) -> ScriptError:
    """Of one that failed after it was fed batches a second time, as a list or a schedule of its own was at its end."""
    return ScriptError(
        f"{brief(error)}; autotune had fed the script batches a second time, and so had trained it further "
        "than it goes by itself",
        hint="If it counts on a number of batches: let its loader have a length, or let it train longer. Or:\n"
        f"{EXAMPLE}",
        traceback=user_traceback(error),
    )


def cannot_run_twice(updates: int, error: Exception) -> ScriptError:
    """Of one that failed when it was run again."""
    return ScriptError(
        f"the script ended after {updates} updates, too few to measure, and cannot run twice in one process: "
        f"{brief(error)}",
        hint=LONGER,
        traceback=user_traceback(error),
    )


def compiles_anew(updates: int) -> Unsupported:
    """Of one whose models are all new to the compiler when it is run again."""
    return Unsupported(
        f"the script ends after {updates} updates, before it could be measured, and would compile its model anew when "
        "it runs again; let it train longer: more epochs, or more data"
    )
