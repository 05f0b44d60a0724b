"""What a verification leaves behind: verdicts with the raw windows, their order, times, flags and seeds.

Format history
1  first
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.config import Config
from autotune.documents import from_json, read_text, to_json
from autotune.errors import ConfigError
from autotune.search.verification.attribution import Attribution
from autotune.search.verification.choice import Choice, Dropped
from autotune.search.verification.claim import Claim
from autotune.search.verification.design import Design
from autotune.trials.folder import write_atomically

FORMAT = 1
FILE_NAME = "verification.json"


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The two answers of a search, each with its claim."""

    format: int = FORMAT
    design: Design
    choice: Choice
    best: Claim | None = None
    """of the best config of all; None: no finalist could be measured"""
    same_batch: Claim | None = None
    """of the best one that keeps the baseline's samples per step; None where that is `best`, or there is none"""
    passed_over: Claim | None = None
    """of the first of the choice, where it proved no faster than the baseline and `best`, which keeps its batch, did"""
    dropped: tuple[Dropped, ...] = ()
    """finalists that failed, in any stage"""
    self_test: Claim | None = None
    """the baseline against itself, where that was asked for"""
    attributions: tuple[Attribution, ...] = ()
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def claims(self) -> Iterator[Claim]:
        """Yield the claims there are, the best config's first."""
        yield from (found for found in (self.best, self.same_batch) if found is not None)

    def _configs(self) -> Iterator[Mapping[str, Any]]:
        for claim in (*self.claims(), *filter(None, [self.passed_over])):
            yield from (claim.baseline, claim.candidate)
        for why in self.attributions:
            yield from (why.baseline, why.winner, why.config)
        yield from (ranked.config for ranked in self.choice.ranking)
        yield from (item.config for item in (*self.choice.dropped, *self.dropped))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for storage."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verification:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: damaged, or of a format that this version does not know; says where.
        """
        return cls._read(json.dumps(data))

    @classmethod
    def load(cls, path: Path) -> Verification:
        """Read a file that `save` wrote.

        Raises:
            ValueError: as `from_dict`.
        """
        try:
            return cls._read(read_text(path))
        except (ValueError, OSError) as error:
            raise ValueError(f"{path}: {error}") from None

    def save(self, path: Path) -> None:
        """Write to `path`, whole or not at all."""
        write_atomically(path, to_json(self))

    @classmethod
    def _read(cls, text: str) -> Verification:
        found = from_json(cls, text)
        if found.format != FORMAT:
            raise ValueError(f"format {found.format}; this version reads {FORMAT}")
        try:
            for values in found._configs():
                Config(**values)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return found
