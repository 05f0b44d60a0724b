"""How much is measured in a verification: decided beforehand, and the same whatever the windows say."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.search.verification.statistics import MARGIN


@dataclass(frozen=True, kw_only=True)
class Design:
    """The plan of a verification."""

    choose_rounds: int = 4
    """rounds over all finalists; they choose, and claim nothing"""
    looks: tuple[int, ...] = (6, 9, 12)
    """pairs after which the claim may end: one look, or three"""
    alpha: float = 0.05
    """share of false claims that is accepted, over all looks and answers together"""
    margin: float = MARGIN
    attribution_rounds: int = 6
    confirmation_rounds: int = 6

    def __post_init__(self) -> None:
        assert len(self.looks) in (1, 3), "alphas are known for one look and for three"
        assert list(self.looks) == sorted(set(self.looks))


THOROUGH = Design()
QUICK = Design(looks=(6,), attribution_rounds=4)
DESIGNS = {"full": THOROUGH, "quick": QUICK}
"""by the word that users choose them with"""
