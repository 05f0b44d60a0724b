"""Pieces of exported Python: the head, the loader, the model, the optimizer. A target puts them together."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from autotune import __version__
from autotune.exporting.base import Export, Target, comment, said

PIECES = frozenset(
    {
        "loader",
        "model_transforms",
        "tensor_transforms",
        "optimizer",
        "switches",
        "expandable_segments",
        "cache_dataset",
    }
)
"""fields of the plan that the pieces here express wherever training is Python; a target adds those of its own"""

PLACE = '''
def map_tensors(batch, function):
    """Return the batch rebuilt with `function` applied to each tensor."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, dict):
        return {key: map_tensors(value, function) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        items = [map_tensors(item, function) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch
'''


def head(export: Export, target: Target, usage: str) -> str:
    """Return the comment that a file begins with: what it is, the settings, the notes, what is left out."""
    lines = [
        comment(f"Training with the settings of {export.name}, exported by autotune {__version__}. {target.help}."),
        "#",
        *(comment(line, indent="  ") for line in usage.strip().splitlines()),
        "#",
        "# Settings (all others are PyTorch's defaults):",
        *(comment(f"  {name} = {said(value)}") for name, value in export.config.items()),
        *([] if len(export.config) else ["#   none"]),
    ]
    if export.made_on:
        lines += ["#", comment(f"Measured on: {export.made_on}. Elsewhere other settings may be faster.")]
    if export.measured:
        lines.append(comment(f"Measured: {export.measured}"))
    left, expressed = target.left_out(export), target.expressed(export)
    advice = [part.advice for part in expressed.snippets if part.advice]
    if left:
        lines += ["#", "# Not expressed here:"]
        lines += [comment(f"  {name} = {said(export.config[name])}: {why}", "    ") for name, why in left.items()]
    own_batch = [] if "batch_size" in export.config else ["The batch size is yours: the config does not set it."]
    notes = [*own_batch, *target.caveats(expressed), *advice, *export.notes]
    if notes:
        lines += ["#", "# Notes:", *(comment(f"- {note}", "  ") for note in notes)]
    return "\n".join(lines)


def assemble(export: Export, head: str, imports: Iterable[str], parts: Iterable[str]) -> str:
    """Return a Python file of its parts, with the imports and the process-wide settings that the options need."""
    needed = {line for part in export.snippets for line in part.imports} | set(imports)
    own = sorted((line for line in needed if not _standard(line)), key=_plain_imports_first)
    standard = sorted(needed - set(own), key=_plain_imports_first)
    blocks = ["\n".join(group) for group in (standard, own) if group]
    first = "\n".join(part.first for part in export.snippets if part.first)
    body = [part.strip("\n") for part in (*(item.definitions for item in export.snippets), *parts) if part.strip()]
    top = "\n\n".join([head, "from __future__ import annotations", *blocks, *([first] if first else [])])
    return "\n\n\n".join([top, *body]) + "\n"


def arguments(values: Mapping[str, Any], indent: str = "        ") -> str:
    """Return keyword arguments, a line each; `Source` stands as it is."""
    return "".join(f"{indent}{name}={literal(value)},\n" for name, value in values.items())


class Source(str):
    """An expression, written without quotes."""


def literal(value: Any) -> str:
    """Return a value as Python, text in double quotes."""
    if isinstance(value, Source):
        return value
    return json.dumps(value) if isinstance(value, str) else repr(value)


def loader_arguments(export: Export) -> dict[str, Any]:
    """Return the arguments of the DataLoader."""
    plan = export.plan.loader_arguments()
    workers = str(plan.get("num_workers", 0))
    found = {name: text for part in export.snippets for name, text in part.loader.items()}
    return {**plan, **{name: Source(text.replace("NUM_WORKERS", workers)) for name, text in found.items()}}


def make_loader(export: Export) -> str:
    """Return the function that makes the DataLoader."""
    return f'''
def make_loader(dataset, **own):
    """Return a DataLoader; `own` are your other arguments: shuffle, sampler, collate_fn, ..."""
{_dataset_lines(export)}    return DataLoader(
        dataset,
        **own,
{arguments(loader_arguments(export))}    )
'''


def prepare_dataset(export: Export) -> str:
    """Return the function that changes the dataset, where another makes the loader; empty where nothing does."""
    lines = _dataset_lines(export)
    return f"def prepare_dataset(dataset):\n{lines}    return dataset\n" if lines else ""


def prepare_model(export: Export, *, device: bool, doc: str) -> str:
    """Return the function that changes the model, on the device or where it is."""
    lines = ["model = model.to(DEVICE)"] if device else []
    blocks = literal(export.plan.checkpoint_blocks)
    lines += [part.model.replace("CHECKPOINT_BLOCKS", blocks) for part in export.snippets if part.model]
    body = textwrap.indent("\n".join([*lines, "return model"]), "    ")
    return f'def prepare_model(model):\n    """{doc}"""\n{body}\n'


def make_optimizer(export: Export) -> str:
    """Return the function that makes the optimizer."""
    flags = "".join(f", {name}=True" for name, on in export.plan.optimizer.items() if on)
    return f'''
def make_optimizer(optimizer_class, parameters, **own):
    """Return the optimizer; `own` are your other arguments: lr, weight_decay, ..."""
    return optimizer_class(parameters, **own{flags})
'''


def tensor_lines(export: Export) -> str:
    """Return the lines that change `tensor`, for a function's body."""
    return textwrap.indent("\n".join(part.tensor for part in export.snippets if part.tensor), "    ")


def lay_out(export: Export) -> str:
    """Return the functions that lay out a batch which is on the device already; empty where nothing is to be done."""
    lines = tensor_lines(export)
    if not lines:
        return ""
    return f'''{PLACE}

def lay_out(batch):
    """Return the batch with each tensor laid out as the model wants it."""
    return map_tensors(batch, lay_out_tensor)


def lay_out_tensor(tensor):
{lines}
    return tensor
'''


def _dataset_lines(export: Export) -> str:
    return "".join(f"    {line}\n" for part in export.snippets for line in part.dataset.splitlines())


def _standard(line: str) -> bool:
    """Whether an import is of the standard library."""
    return line.split()[1].partition(".")[0] in sys.stdlib_module_names


def _plain_imports_first(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line
