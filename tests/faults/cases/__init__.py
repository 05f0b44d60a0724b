"""Every known fault, and the tests that prove what becomes of it, or why there can be none.

The faults are kept by where they were collected: FAULTS (situations that a tuner must survive, from the trackers of
other tuners), USERS (what people run into who tune by hand) and PITFALLS (ways to measure wrongly). An ID names one
case within its page: C10 of the faults and C10 of the users are two cases. Tests are named by their file below tests/
and their function; test_cases.py checks that each exists. `python -m tests.faults.cases` prints the whole.
"""

from __future__ import annotations

from tests.faults.cases.case import Case
from tests.faults.cases.faults import FAULTS
from tests.faults.cases.pitfalls import PITFALLS
from tests.faults.cases.users import USERS

PAGES = {"faults": FAULTS, "users": USERS, "pitfalls": PITFALLS}

__all__ = ["FAULTS", "PAGES", "PITFALLS", "USERS", "Case"]
