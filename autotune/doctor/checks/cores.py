"""Fewer usable cores than loader workers and compute threads, and a quota that stops the process. Technique 18."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from autotune.doctor.context import Context
from autotune.doctor.findings import Basis, Finding, Gain, Gives, Sureness

DISTURBED = ("cpu_contended", "cpu_contended_hard")


def check(context: Context) -> Iterator[Finding]:
    ceilings, session = context.ceilings, context.session
    threads, cores = torch.get_num_threads(), context.machine.usable_cores
    if session.workers + threads > cores and not context.on_accelerator and not set(DISTURBED) & set(session.flags):
        gain = Gain(share=ceilings.contention_s / ceilings.step_s, basis=Basis.BOUND)
        if context.worth(gain) is not None and gain.share > 2 * ceilings.uncertainty:
            yield Finding(
                check="cores",
                gives=Gives.SPEED,
                seen=f"{session.workers} loader workers and {threads} compute threads share {cores:g} usable cores",
                where=("the loader's num_workers and torch's threads",),
                remedy=(f"torch.set_num_threads({max(1, int(cores) - session.workers)})", "or fewer num_workers"),
                gain=gain,
                sure=Sureness.LIKELY,
                why="the step computes so much slower while the loader works than with the loader idle; "
                "autotune search tries both settings",
            )
    if "cpu_quota_throttled" in session.flags:
        yield Finding(
            check="cores",
            gives=Gives.SPEED,
            seen=f"the container's processor quota ({cores:g} cores) stopped the training again and again",
            where=("the quota of the process's cgroup",),
            remedy=(f"torch.set_num_threads({max(1, int(cores))})  # threads and workers within the quota",),
            gain=Gain(),
            sure=Sureness.LIKELY,
            why="a process that uses up its quota stands still until the next period, with all its threads",
        )
