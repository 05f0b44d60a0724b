"""compile_mode: torch.compile of the model, which fuses operations and, with CUDA graphs, launches them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.options.base import Context, Effect, Inapplicable, Maths, Option, Value
from autotune.options.deterministic import MAY_DIFFER
from autotune.options.snippet import Snippet
from autotune.plan import Plan

if TYPE_CHECKING:
    import torch

MODES = ("off", "default", "reduce-overhead", "max-autotune-no-cudagraphs")
START_S = {"default": 30.0, "reduce-overhead": 35.0, "max-autotune-no-cudagraphs": 120.0}
"""seconds of a first compilation, measured on two cores; large models take longer"""
FEWEST_TRIALS = 12  # on a CPU a compiled trial costs as much as five others: a smaller search has no room for it
COMPILER_BYTES = 110 * 2**20  # of host memory, for the compiler itself
GRAPHS_ACCUMULATE = "gradients lie in a CUDA graph's own memory, and the next batch of the same update overwrites them"
ASK = "--choices compile_mode=off,default asks for it"


class CompileMode(Option):
    name = "compile_mode"
    help = "torch.compile: off, default, reduce-overhead (CUDA graphs), max-autotune-no-cudagraphs"
    default = "off"
    affects = frozenset({"compute", "memory"})
    maths = Maths.ROUNDED
    order = 70
    meets = ("accumulation", "deterministic")

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        refused = _refused(context)
        if refused is not None:
            return Inapplicable(refused)
        if context.planned_samples is not None and facts.sample_compute_s > 0:
            planned_s = context.planned_samples * facts.sample_compute_s
            if planned_s < START_S["default"]:
                return Inapplicable(
                    f"compiling takes about {START_S['default']:.0f} s, and all that you plan to train takes about "
                    f"{planned_s:.0f} s of compute; {ASK}",
                    unless_asked=True,
                )
        if facts.is_accelerator:
            return [mode for mode in MODES if self.refusal(mode, context) is None]
        if context.trials is not None and context.trials < FEWEST_TRIALS:
            return Inapplicable(
                f"a search of fewer than {FEWEST_TRIALS} trials on a CPU leaves it out, since each takes half a "
                f"minute to compile; {ASK}",
                unless_asked=True,
            )
        return ("off", "default")  # max-autotune tries C++ kernels for minutes; it may be asked for

    def refusal(self, value: Value, context: Context) -> str | None:
        if value == self.default:
            return None
        refused = _refused(context)
        return refused or (_why_no_graphs(context) if value == "reduce-overhead" else None)

    def conflict(self, values: Mapping[str, Value], context: Context) -> str | None:
        mode = values[self.name]
        if mode == "reduce-overhead" and values["accumulation"] != 1:
            return GRAPHS_ACCUMULATE
        return MAY_DIFFER if mode == "max-autotune-no-cudagraphs" and values["deterministic"] else None

    def expert(self, context: Context) -> Value:
        if not context.facts.is_accelerator or context.facts.variable_shapes:
            return self.default
        return self.default if isinstance(self.choices(context), Inapplicable) else "default"

    def prior(self, value: Value, context: Context) -> Effect:
        if value == self.default:
            return Effect(sd=0.0)
        if not context.facts.is_accelerator:
            return Effect(compute=-0.05, memory=-0.05, host_bytes=COMPILER_BYTES, sd=0.25)
        graphs = value == "reduce-overhead"  # where launches bound the step, the gain is large
        return Effect(compute=-0.25 if graphs else -0.15, memory=0.0 if graphs else -0.1, sd=0.35 if graphs else 0.25)

    def start_s(self, value: Value, context: Context) -> float:
        return START_S.get(str(value), 0.0)

    def check(self, value: Value) -> str | None:
        return None if isinstance(value, str) and value in MODES else f"takes {', '.join(MODES[:-1])} or {MODES[-1]}"

    def apply(self, value: Value, plan: Plan) -> None:
        if value == self.default:
            return

        def compiled(model: torch.nn.Module) -> torch.nn.Module:
            from autotune.compiling import compile_model

            return compile_model(model, str(value))

        plan.model_transforms.append(compiled)
        plan.compiles = True

    def snippet(self, value: Value) -> Snippet:
        if value == self.default:
            return Snippet()
        mode = f'mode="{value}"'
        return Snippet(
            model="# in place, so that state_dict keys stay; of a class of torch's own (nn.Sequential) the forward\n"
            'if type(model).forward.__module__.startswith("torch."):\n'
            f"    model.forward = torch.compile(model.forward, {mode})\n"
            "else:\n"
            f"    torch.nn.Module.compile(model, {mode})",
        )


def _refused(context: Context) -> str | None:
    if context.facts.compiled:
        return "the model or the step calls torch.compile itself"
    return context.facts.compile_refused


def _why_no_graphs(context: Context) -> str | None:
    """Return why CUDA graphs cannot hold a step: they replay the same kernels on the same addresses."""
    facts = context.facts
    if not facts.device.startswith("cuda"):
        return "CUDA graphs need a CUDA device"
    if facts.variable_shapes:
        return "shapes vary between batches, and a CUDA graph holds one shape"
    if facts.synchronizes:
        return f"the model waits for the device, which a CUDA graph cannot hold: {facts.synchronizes[0]}"
    if facts.script is not None and facts.script.batches_per_update > 1:
        return GRAPHS_ACCUMULATE
    if facts.moves_parameters:
        return "the step gives parameters new memory, and a CUDA graph keeps the addresses that it saw"
    return None
