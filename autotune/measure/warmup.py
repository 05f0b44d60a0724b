"""First step and warm-up: until the step is what it will be for the rest of the training."""

from __future__ import annotations

from torch.nn.modules.batchnorm import _BatchNorm

from autotune.errors import Unsupported
from autotune.measure.session import Session
from autotune.measure.stream import Fetched
from autotune.measure.validity import ChangeWatch, NonFinite, TrainsNothing, UpdateCounter, finite

MIN_STEPS = 5
MIN_EFFECTIVE_UPDATES = 3  # Adam's state is there after one; fp16 skips updates until its scale fits
MAX_STEPS = 200  # fp16 halves its scale once a step and finds a working one long before
MAX_S = 30.0  # slow steps stop here once they have made their effective updates
MAX_PARTIAL_BATCH_S = 5.0  # for loading the last, smaller batch of an epoch
QUIET_STEPS = 3  # without a new compilation, before compiling counts as over


def warm_up(session: Session, expected_gradients: tuple[str, ...] | None) -> tuple[int, tuple[str, ...]]:
    """Step until caches are filled, optimizer state is allocated and updates are effective.

    Returns:
        The effective updates made, and the names of the parameters that had a gradient in each.

    Raises:
        NonFinite: the loss is not a number.
        TrainsNothing: no update, no change, or a gradient of `expected_gradients` is missing.
    """
    clock = session.clock
    session.progress("first step", {})
    watch = ChangeWatch(session.training.trainable())
    counter = UpdateCounter(session.training, watch)
    fetched = session.stream.next()
    session.look_at(fetched.host)
    began = clock()
    session.step(fetched)
    session.device.synchronize()
    session.seconds["first_step_s"] = clock() - began
    session.compiled_first = compiled = session.compiles()
    began, left_out = clock(), session.left_out()
    steps, quiet = 1, 0
    # what a script does beside its steps keeps the machine warm, too
    while not _warm(session, steps, counter.effective, clock() - began + session.left_out() - left_out) or (
        quiet < QUIET_STEPS and session.compilation() and steps < MAX_STEPS
    ):
        session.progress("warm-up", {"step": steps})
        fetched, took_s = _timed_step(session)
        now = session.compiles()
        if now == compiled:
            session.recent.append((took_s, fetched.wait_s))
            quiet += 1
        else:
            if fetched.samples < session.training.batch_size:
                session.flag("compiled_last_batch")
            began += now.seconds - compiled.seconds  # compiling is no warm-up
            compiled, quiet = now, 0
        session.look_at(fetched.host)
        steps += 1
    _step_on_partial_batch(session)
    _check_compiled(session)
    counter.remove()
    _check(session, counter, watch, expected_gradients)
    session.seconds["warmup_s"] = clock() - began
    return counter.effective, counter.gradient_names


def _timed_step(session: Session) -> tuple[Fetched, float]:
    """Return the batch that was trained on, and the seconds from asking for it to the end of its step."""
    at = session.clock()
    fetched = session.stream.next()
    session.step(fetched)
    session.device.synchronize()
    return fetched, session.clock() - at


def _warm(session: Session, steps: int, effective: int, elapsed_s: float) -> bool:
    if steps >= MAX_STEPS * session.accumulation and elapsed_s >= session.device.min_warmup_s:
        return True
    if effective < MIN_EFFECTIVE_UPDATES:
        return False
    return elapsed_s >= MAX_S or (steps > MIN_STEPS and elapsed_s >= session.device.min_warmup_s)


def _step_on_partial_batch(session: Session) -> None:
    """Run the last, smaller batch of an epoch once: what a new shape costs must not fall into the window."""
    training = session.training
    length = session.dataset_length
    rest = length % training.batch_size if length else 0
    fewest = 2 if any(isinstance(module, _BatchNorm) for module in training.model.modules()) else 1
    if rest < fewest or session.drops_last or not session.divisible or session.fixed_batch:
        return
    if session.stream.first_batch_s * rest / training.batch_size > MAX_PARTIAL_BATCH_S:
        return
    compiled = session.compiles()
    loader = training.make_loader(samples=rest, batch_size=rest)
    for batch in loader.host:
        training.step(loader.place(batch), rest)
    session.device.synchronize()
    if session.compiles().graphs == compiled.graphs:
        return
    session.flag("compiled_last_batch")
    for _ in range(QUIET_STEPS):  # whole batches again: dynamo may take the batch size for variable from here on
        _timed_step(session)


def _check_compiled(session: Session) -> None:
    if session.training.tuned.compiles and not session.compilation():
        raise Unsupported(
            "torch.compile found nothing to compile: the step never calls the model as a whole, or dynamo skips it"
        )


def _check(session: Session, counter: UpdateCounter, watch: ChangeWatch, expected: tuple[str, ...] | None) -> None:
    if not finite([loss.item() for loss in session.losses]):
        raise NonFinite
    if counter.effective == 0:
        raise TrainsNothing("no optimizer update happened in the warm-up")
    if not watch.changed():
        raise TrainsNothing(
            "steps ran, but no parameter changed",
            hint="Does the optimizer hold the parameters that the loss depends on?",
        )
    missing = set(expected or ()) - counter.with_gradient
    if missing:
        names = ", ".join(sorted(missing)[:5])
        raise TrainsNothing(f"{len(missing)} parameters lose their gradient under this config: {names}")
