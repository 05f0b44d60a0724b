"""Which parts of a plan can be carried out on a script from outside, and why not the others."""

from __future__ import annotations

from dataclasses import fields

from autotune.plan import Plan

CARRIED_OUT = frozenset(
    {
        "loader",  # loaders.py: at the construction of the training loader
        "model_transforms",  # models.py: before a model's first forward
        "tensor_transforms",  # models.py: on what an outermost forward is given
        "autocast_dtype",  # models.py: around the outermost forward
        "optimizer",  # optimizers.py: at the construction of torch's optimizers
        "switches",  # before the script begins
        "non_blocking",  # belongs to pinned memory; the copies themselves are the script's, and stay as they are
        "expandable_segments",  # before the script begins
        "compiles",  # a mark on what model_transforms do
        "checkpoint_blocks",  # no setting: names the blocks
    }
)
"""fields of `Plan` that scripting carries out; every other one makes its options inapplicable, new ones too"""

NEEDS_A_WORKLOAD = "it cannot be set from outside on an unmodified script; give the script a Workload for it"
NO_MODEL = "no nn.Module with trainable parameters was called"
NO_LOADER = "the script trains on no DataLoader: it makes its batches itself"

UNKNOWN_LOADER = "none of the script's loaders shuffles; the best.toml of a search on it says which one trains"


def not_carried_out(*, no_loader: str | None, own_scaler: bool) -> dict[str, str]:
    """Return the fields of the plan that are not carried out on this script, and why.

    Args:
        no_loader: why there is no training loader; None where there is one.
    """
    found = {item.name: NEEDS_A_WORKLOAD for item in fields(Plan) if item.name not in CARRIED_OUT}
    if no_loader is not None:
        found["loader"] = no_loader
    if own_scaler:
        found.pop("scale_gradients", None)  # the script's own does it
    else:
        found["scale_gradients"] = "fp16 needs a gradient scaler, and the script has none"
    return found
