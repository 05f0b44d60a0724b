"""What fault tests share with those of the command line, and with each other."""

from __future__ import annotations

from tests.cli.conftest import process, run, server, write  # noqa: F401
