"""An environment of its own for each peer: their requirements need not agree with ours or with each other's."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "autotune-peers"
REQUIREMENTS = {
    "pytorch_autotune": ("pytorch-autotune==2.0.0",),
    "optuna_tpe": (),
    "lightning_finder": ("lightning==2.6.6",),
    "accelerate_finder": ("accelerate==1.15.0",),
    "by_hand": (),
}
"""of each peer; none: what is installed here does"""


class NotInstalled(Exception):
    """A peer cannot be had here; says what the installer said."""


def python_for(peer: str, folder: Path) -> str:
    """Return the interpreter that has the peer, making its environment where there is none.

    Raises:
        NotInstalled: pip failed.
    """
    if not REQUIREMENTS[peer]:
        return sys.executable
    place = folder / peer
    python, complete = place / "bin" / "python", place / ".complete"
    if complete.exists():
        return str(python)
    venv.create(place, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(REPOSITORY / "constraints.txt")]
    done = subprocess.run(
        [*command, "--editable", f"{REPOSITORY}[examples]", *REQUIREMENTS[peer]], capture_output=True, text=True
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalled(errors[-1] if errors else done.stderr.strip()[-300:])
    complete.touch()
    return str(python)
