"""Where the script makes an object: what tells one that is made anew, for another epoch, from another one."""

from __future__ import annotations

import sys
from types import FrameType

Site = tuple[tuple[str, int], ...]


def site_of_caller() -> Site:
    """Return where the caller was called: file and line of each frame up to the main module, innermost first.

    Those of libraries tell apart what one line of the script has them make, as loaders for training and evaluation.
    """
    frame: FrameType | None = sys._getframe(2)
    found = []
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<"):
            found.append((name, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)
