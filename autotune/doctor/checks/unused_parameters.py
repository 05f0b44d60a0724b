"""Parameters that no step ever uses. Technique 26."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gain, Gives, Sureness
from autotune.words.figures import memory


def check(context: Context) -> Iterator[Finding]:
    reached = context.calls.reached
    trainable = context.training.trainable()
    unused = {name: item for name, item in trainable.items() if name not in reached}
    if not unused or not reached:
        return
    size = sum(item.numel() * item.element_size() for item in unused.values())
    called = context.calls.counted()
    idle = all(not called[name.rpartition(".")[0]] for name in unused)
    yield Finding(
        check="unused_parameters",
        gives=Gives.RESULT,
        seen=f"{len(unused)} of {len(trainable)} parameters ({memory(size)}) get no gradient in {context.calls.steps} "
        f"steps: {'their modules are never called' if idle else 'the loss does not depend on them'}",
        where=context.parameter_places(unused),
        remedy=("Use them in forward(), or remove them from the model.",),
        gain=Gain(saved_bytes=size),
        sure=Sureness.CERTAIN if idle else Sureness.LIKELY,
        why="they are never trained, and DistributedDataParallel refuses them",
    )
