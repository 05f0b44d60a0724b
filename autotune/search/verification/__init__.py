"""Verification: baseline and finalists measured again, interleaved, in fresh processes. Only this claims."""

from autotune.search.verification.attribution import Attribution, attribute
from autotune.search.verification.claim import Claim
from autotune.search.verification.design import QUICK, THOROUGH, Design
from autotune.search.verification.finalists import finalists
from autotune.search.verification.result import FILE_NAME, Verification
from autotune.search.verification.statistics import Verdict
from autotune.search.verification.verify import verify, within_noise
from autotune.search.verification.wording import sentence

__all__ = [
    "FILE_NAME",
    "QUICK",
    "THOROUGH",
    "Attribution",
    "Claim",
    "Design",
    "Verdict",
    "Verification",
    "attribute",
    "finalists",
    "sentence",
    "verify",
    "within_noise",
]
