"""Importing the user's script as a module, in the trial process only."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType, TracebackType

from autotune.errors import NO_TERMINAL, AutotuneError, ScriptError, asks_for_input, text_of
from autotune.workload.package import place_of
from autotune.workload.start_up import torch_told_anew

PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
LIBRARIES = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))

WORKER = re.compile(r"Caught (\w+) in DataLoader worker process \d+")
LONGEST_LINE, LONGEST_TRACEBACK = 500, 20_000  # characters; errors exist that print a whole tensor

QUIET = {
    # experiment trackers open runs, upload and prompt; forty trials must not
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "MLFLOW_TRACKING_URI": "file:///dev/null",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
    # on a desktop, plt.show() waits until someone closes the window
    "MPLBACKEND": "Agg",
    # tokenizers warn and switch themselves off after a fork
    "TOKENIZERS_PARALLELISM": "false",
}


def import_script(script: Path, arguments: tuple[str, ...]) -> ModuleType:
    """Import the script under its own name, with its folder first on sys.path and its own arguments.

    A module of a package keeps that: its name is dotted, and the folder of the package is on sys.path.

    Raises:
        ScriptError: the script raised or called sys.exit; carries its own traceback.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    script = script.resolve()
    if not script.is_file():
        raise ScriptError(f"{script.name} is not there any more", hint=f"Every trial imports {script}.")
    sys.argv = [str(script), *arguments]
    place = place_of(script)
    sys.path.insert(0, str(place.folder))
    name = place.module or (script.stem if script.stem.isidentifier() else "script")
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"{name}_script"  # a script called random.py must not replace the module of that name
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise ScriptError(f"{script.name} is not a Python script", hint="Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # loader workers and pickle look it up by this name
    try:
        with torch_told_anew(script.name):
            spec.loader.exec_module(module)
    except SystemExit as error:
        raise _exited(script, error, arguments) from None
    except AutotuneError as error:  # the script's call of ours was wrong: its line says enough
        frames = traceback.extract_tb(error.__traceback__)
        own = [f"{Path(item.filename).name}, line {item.lineno}" for item in frames if not is_library(item.filename)]
        raise ScriptError(f"{own[-1] if own else script.name}: {error.message}", hint=error.hint) from None
    except BaseException as error:
        hint = NO_TERMINAL if asks_for_input(error) else ""
        raise ScriptError(
            f"{script.name} failed when it was imported: {brief(error)}", hint=hint, traceback=user_traceback(error)
        ) from error
    return module


def _exited(script: Path, error: SystemExit, arguments: tuple[str, ...]) -> ScriptError:
    frames = traceback.extract_tb(error.__traceback__)
    if any(Path(frame.filename).name == "argparse.py" for frame in frames):
        given = f"It was given: {' '.join(arguments)}. " if arguments else ""
        hint = (
            f"{script.name} parses its arguments on import. {given}"
            f"Pass what it needs after --, as in: autotune search {script.name} -- --data folder"
        )
    else:
        hint = "Move what ends the script under: if __name__ == '__main__':"
    own = [frame for frame in frames if not is_library(frame.filename)]
    text = "".join(["Traceback (most recent call last):\n", *traceback.format_list(own), f"SystemExit: {error.code}\n"])
    code = "" if error.code is None else repr(error.code)
    return ScriptError(f"{script.name} called sys.exit({code}) when it was imported", hint=hint, traceback=text)


def brief(error: BaseException) -> str:
    """Return the error in one line: its type and the first line of its text; of one in a loader worker, its own."""
    lines = text_of(error).strip().splitlines()
    if lines and (worker := WORKER.match(lines[0])):
        own = [line for line in lines if re.match(rf"(?:[\w.]+\.)?{worker[1]}(?::|$)", line)]
        if own:
            return own[-1][:LONGEST_LINE]
    return f"{type(error).__name__}: {lines[0][:LONGEST_LINE]}" if lines else type(error).__name__


def user_traceback(error: BaseException) -> str:
    """Return the traceback from the user's first frame on: our own frames and the importer's are noise to them."""
    text = "".join(
        _without_ours(traceback.TracebackException(type(error), error, _user_frames(error.__traceback__))).format()
    )
    half = LONGEST_TRACEBACK // 2
    return text if len(text) <= LONGEST_TRACEBACK else f"{text[:half]}\n[...]\n{text[-half:]}"


def _without_ours(found: traceback.TracebackException) -> traceback.TracebackException:
    """Leave out the frames of ours between the user's, of those that led to the error too."""
    kept = [frame for frame in found.stack if not _ours(frame.filename)]
    if kept:
        found.stack = traceback.StackSummary.from_list(kept)
    for earlier in (found.__cause__, found.__context__):
        if earlier is not None:
            _without_ours(earlier)
    return found


def _user_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the frames from the user's first one on; where a library failed by itself, from the library's."""
    for not_theirs in (is_library, _ours):
        start = frames
        while start is not None and not_theirs(start.tb_frame.f_code.co_filename):
            start = start.tb_next
        if start is not None:
            return start
    return frames


def _ours(filename: str) -> bool:
    return filename.startswith("<frozen importlib") or Path(filename).is_relative_to(PACKAGE_FOLDER)


def is_library(filename: str) -> bool:
    """Whether a file is ours, Python's or an installed package's."""
    return _ours(filename) or any(Path(filename).is_relative_to(folder) for folder in LIBRARIES)
