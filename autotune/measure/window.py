"""Drain and window: the timed blocks that make the step time."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import torch

from autotune.machine import usable_cores
from autotune.measure.blocks import StopRule, estimate, steady
from autotune.measure.contention import Reading, family, flags_between
from autotune.measure.session import Session
from autotune.records import Block

MAX_SETTLE_S = 5.0
BLOCKS_IN_BUDGET = 12
BLOCKS_IN_EPOCH = 4  # an epoch with fewer blocks than this is measured whole
FEW_IN_EPOCH = 12  # with fewer than this it is, where the budget allows: its ragged end weighs a few percent
TOO_SHORT = 0.5  # of the shortest block: then the plan is made again
MAX_BLOCKS = 128  # more of them say nothing more: neighbours are merged, and blocks become twice as long
FEW_BLOCKS_WAIT = 0.05  # waiting less than this share of a step cannot come in bursts
MAX_REPLANS = 3  # for another length of an epoch; after that it is taken to vary


@dataclass(frozen=True)
class BlockPlan:
    """How the window is cut."""

    steps: int
    """in a block: a multiple of the workers, since batches come in bursts of so many, and of an update's batches"""
    epochs: int
    """whole ones in a block, restarts included, however long each is: too short to cut. 0: blocks are of steps"""
    budget_s: float

    @property
    def whole_epochs(self) -> bool:
        return self.epochs > 0


def plan_blocks(session: Session) -> BlockPlan:
    """Return the shortest blocks that the clock can time and that hold whole bursts of batches."""
    step_s = _step_s(session)
    wait_s = sum(wait for _, wait in session.recent) / max(1, len(session.recent))
    burst = math.lcm(max(session.workers, 1), session.accumulation)
    budget_s = session.limits.budget_s
    steps = burst * math.ceil(session.device.min_block_s / (burst * step_s))
    needed_s = BLOCKS_IN_BUDGET * burst * step_s
    if needed_s > budget_s:  # steps are too slow for the budget: it grows
        steps = burst
        budget_s = min(needed_s, session.limits.budget_max_s)
        if needed_s > session.limits.budget_max_s:
            if wait_s < FEW_BLOCKS_WAIT * step_s:
                steps = session.accumulation
            else:
                session.flag("few_blocks")
    return _within_epoch(session, BlockPlan(steps, 0, budget_s), step_s)


def _step_s(session: Session) -> float:
    """Return the seconds of a step late in the warm-up."""
    return max(sum(took for took, _ in session.recent) / max(1, len(session.recent)), 1e-6)


def _within_epoch(session: Session, plan: BlockPlan, step_s: float) -> BlockPlan:
    epoch = session.stream.steps_per_epoch
    if epoch is None:
        return plan
    affordable = BLOCKS_IN_BUDGET * epoch * step_s <= plan.budget_s
    if epoch >= (FEW_IN_EPOCH if affordable else BLOCKS_IN_EPOCH) * plan.steps:
        return plan
    session.flag("short_epoch")
    epochs = max(1, math.ceil(session.device.min_block_s / (epoch * step_s)))
    return BlockPlan(epochs * epoch, epochs, plan.budget_s)


def drain_and_settle(session: Session, plan: BlockPlan) -> None:
    """Empty the prefetch queue, which hides the loader, then let it find its level again under compute."""
    if not session.workers or plan.whole_epochs:
        return
    began = session.clock()
    session.progress("drain", {})
    # one batch of each worker more than were on their way, so that the last ones were begun with nothing ready
    pulls = session.queue + 2 * session.workers + session.ahead
    needed = pulls + max(session.queue, 2 * plan.steps)
    epoch, left = session.stream.steps_per_epoch, session.stream.left_in_epoch()
    if epoch is not None and epoch < needed:
        session.flag("prefetch_bias")
    else:
        if left is not None and left * _step_s(session) < MAX_SETTLE_S:  # a restart on the way empties the queue, too
            session.stay_in_epoch(needed)
        session.loader_s = _pull(session, pulls)
        _settle(session, session.queue)
    session.seconds["drain_s"] = session.clock() - began


def _pull(session: Session, pulls: int) -> float:
    """Take batches without compute; the last of them come at the pace of the loader. Returns seconds a batch."""
    began = session.clock()
    waits: deque[float] = deque(maxlen=session.workers)
    for _ in range(pulls):
        fetched = session.stream.next()
        if fetched.boundary_s is None:
            waits.append(fetched.wait_s)
        else:  # which is not the loader's pace
            session.training.end_epoch()
        if session.clock() - began > MAX_SETTLE_S and len(waits) == session.workers:
            break
    return sum(waits) / max(1, len(waits))


def _settle(session: Session, steps: int) -> None:
    began = session.clock()
    for _ in range(steps):
        session.step(session.stream.next())
        if session.clock() - began > MAX_SETTLE_S:
            break
    session.device.synchronize()


def measure_window(session: Session, plan: BlockPlan, rule: StopRule) -> tuple[list[Block], str]:
    """Drain the loader and time blocks until the rule has enough.

    Returns:
        The blocks, and the condition that was not met, if any.
    """
    pids = family()
    compiled = session.compiles()
    plan = _aligned(session, plan)
    drain_and_settle(session, plan)  # nothing slow from here to the first block: the queue would fill again
    began, left_out = session.clock(), session.left_out()
    before = Reading.take(pids)
    retries = session.device.retries()
    blocks: list[Block] = []
    decision, replans = None, 0
    while decision is None:
        if not plan.whole_epochs:
            session.stay_in_epoch(plan.steps)
        block = _time_block(session, plan)
        if block is None or (replans < MAX_REPLANS and _misjudged(session, plan)):
            earlier, plan = plan, _replan(session, plan)
            if plan.whole_epochs or earlier.whole_epochs:
                blocks = []  # restarts are in the blocks from now on, or no longer
                replans += 1
            continue
        if not blocks and not plan.whole_epochs and block.wall_s < TOO_SHORT * session.device.min_block_s:
            longer = _longer(session, plan, block)
            plan = _aligned(session, _within_epoch(session, longer, block.wall_s / block.steps))
            continue
        blocks.append(block)
        if len(blocks) > MAX_BLOCKS:
            blocks = [_merged(first, second) for first, second in zip(blocks[::2], blocks[1::2], strict=False)]
            plan = replace(plan, steps=2 * plan.steps, epochs=2 * plan.epochs)
        session.progress("window", {"block": len(blocks), "sample_s": block.wall_s / block.samples})
        decision = rule.decide(blocks, session.left_out() - left_out)
    # those of a step that is computed elsewhere are idle
    threads = session.workers + (1 if session.device.is_accelerator else torch.get_num_threads())
    for flag in flags_between(before, Reading.take(family()), threads, usable_cores()):
        session.flag(flag)
    if session.device.retries() > retries:
        session.flag("memory_pressure")
    if session.compiles() != compiled:
        session.flag("recompiled")
    if decision.kind in ("noise", "budget"):
        session.flag("noisy")
    if decision.kind == "slower":
        session.flag("pruned")
    if estimate(blocks).bursty:
        session.flag("bursty")
    if not steady(blocks):
        session.flag("no_steady_state")
    if session.shapes_vary():
        session.flag("variable_shapes")
    session.seconds["window_s"] = session.clock() - began
    return blocks, decision.unmet


def _time_block(session: Session, plan: BlockPlan) -> Block | None:
    """Time one block: the device is waited for at its edges, and nowhere inside.

    One of whole epochs ends as it began: after the first step of an epoch, so that each restart in it has its epoch.
    Returns None where an epoch ended in one of steps.
    """
    steps, samples, restarts, wait_s = 0, 0, 0, 0.0
    session.device.synchronize()
    began = session.clock()
    while (restarts < plan.epochs) if plan.whole_epochs else (steps < plan.steps):
        fetched = session.stream.next()
        session.step(fetched)
        restarts += fetched.boundary_s is not None
        if restarts and not plan.whole_epochs:
            return None
        steps += 1
        samples += fetched.samples
        wait_s += fetched.wait_s
    session.device.synchronize()
    return Block(steps=steps, samples=samples, wall_s=session.clock() - began, wait_s=wait_s)


def _misjudged(session: Session, plan: BlockPlan) -> bool:
    """Whether whole epochs are longer or shorter than was planned: they may be long enough to cut, or too short."""
    return plan.epochs * (session.stream.steps_per_epoch or 0) != plan.steps and plan.whole_epochs


def _longer(session: Session, plan: BlockPlan, block: Block) -> BlockPlan:
    """Return a plan with blocks that the clock can time, where the warm-up's steps were slower than these."""
    factor = math.ceil(session.device.min_block_s / block.wall_s)
    return replace(plan, steps=factor * plan.steps)


def _merged(first: Block, second: Block) -> Block:
    return Block(
        steps=first.steps + second.steps,
        samples=first.samples + second.samples,
        wall_s=first.wall_s + second.wall_s,
        wait_s=first.wait_s + second.wait_s,
    )


def _replan(session: Session, plan: BlockPlan) -> BlockPlan:
    """Look again, now that the epoch's length is known; what came before was the first step of an epoch."""
    if not plan.whole_epochs:
        return _within_epoch(session, plan, _step_s(session))
    session.flags.remove("short_epoch")
    return plan_blocks(session)


def _aligned(session: Session, plan: BlockPlan) -> BlockPlan:
    """Let blocks of whole epochs begin where they do; return the plan, another where no epoch ends by then."""
    if not plan.whole_epochs or _reach_restart(session):
        return plan
    session.stream.steps_per_epoch = None  # the loader is wrong about it
    session.flags.remove("short_epoch")
    return plan_blocks(session)


def _reach_restart(session: Session) -> bool:
    """Train up to the first step of an epoch, untimed; where none was seen to end, no further than the loader says."""
    left, steps = session.stream.left_in_epoch() or 0, 0
    while steps <= left or session.stream.boundaries:
        fetched = session.stream.next()
        session.step(fetched)
        steps += 1
        if fetched.boundary_s is not None:
            return True
    return False
