"""The kernel's own refusal of writes (landlock(7)), for this process and its children; Linux 6.2 or newer."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # numbers of the system calls, the same on every machine
VERSION_FLAG, PATH_BENEATH = 1, 1
PR_SET_NO_NEW_PRIVS = 38  # prctl(2)
FIRST_WITH_TRUNCATE = 3
WRITES = (1 << 1) | sum(1 << bit for bit in range(4, 15))
"""opening for writing, removing and making whatever there is, moving between folders, truncating"""
FILE_WRITES = (1 << 1) | (1 << 14)
"""those of them that a single file can have"""
OPEN = ("/dev", "/proc", "/sys", "/run")
"""as they are for everybody: what was staged in /dev/shm only the guards leave alone, since no rule excepts a file"""


class Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr"""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def available() -> bool:
    """Return whether the kernel can refuse all that is to be refused."""
    version = ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_FLAG)
    return bool(version >= FIRST_WITH_TRUNCATE)


def enter(writable: Iterable[Path]) -> bool:
    """Refuse every write that is not below `writable` from now on; return whether the kernel can do that."""
    if not available():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    handled = ctypes.c_uint64(WRITES)
    rules = libc.syscall(CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    try:
        for path in (*map(Path, OPEN), *writable):
            if path.exists():
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                rule = Beneath(WRITES if path.is_dir() else FILE_WRITES, descriptor)
                libc.syscall(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(rule), 0)
                os.close(descriptor)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)
