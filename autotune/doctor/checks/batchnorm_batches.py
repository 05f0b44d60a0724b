"""BatchNorm over few samples: tiny batches, accumulation, a last batch of one. Technique 3."""

from __future__ import annotations

from collections.abc import Iterator

from torch.nn.modules.batchnorm import _BatchNorm

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness

FEW_SAMPLES = 8  # in a batch; statistics of fewer scatter so much that training suffers (Wu & He 2018, fig. 1)


def check(context: Context) -> Iterator[Finding]:
    norms = [call.name for call in context.calls.per_step() if isinstance(call.module, _BatchNorm) and call.training]
    if not norms:
        return
    training = context.training
    size = round(context.ceilings.samples_per_step)
    places = tuple(context.place(name) for name in dict.fromkeys(norms))
    updates = context.calls.updates / max(1, len(training.optimizers)) / context.calls.steps
    if context.session.accumulation > 1:
        updates = 1 / context.session.accumulation
    if size < FEW_SAMPLES:
        seen = f"{len(places)} BatchNorm layers take their statistics from batches of {size} samples"
        remedy: tuple[str, ...] = (
            "nn.GroupNorm(32, channels)  # statistics of each sample alone",
            "or a larger batch",
        )
        yield _finding(seen, places, remedy, "so few samples scatter: training gets worse than with larger batches")
    elif updates < 1:
        seen = f"gradients are accumulated over {round(1 / updates) if updates else 'several'} batches, and "
        seen += f"{len(places)} BatchNorm layers take their statistics from each batch of {size} alone"
        remedy = ("A larger batch instead where memory allows it; or layers without batch statistics, as GroupNorm.",)
        yield _finding(seen, places, remedy, "an accumulated batch trains otherwise than one batch of that size")
    length = context.session.dataset_length
    rest = length % training.batch_size if length else 0
    if rest == 1 and context.session.plain_loader and not context.session.drops_last:
        seen = f"the last batch of an epoch has 1 sample ({length} samples in batches of {training.batch_size})"
        yield _finding(
            seen,
            places,
            ("DataLoader(..., drop_last=True)",),
            "BatchNorm fails on it, or normalises each channel by itself",
            Sureness.CERTAIN,
        )


def _finding(
    seen: str, places: tuple[str, ...], remedy: tuple[str, ...], why: str, sure: Sureness = Sureness.LIKELY
) -> Finding:
    return Finding(
        check="batchnorm_batches", gives=Gives.RESULT, seen=seen, where=places, remedy=remedy, sure=sure, why=why
    )
