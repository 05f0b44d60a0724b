"""Writing the emitted config: data that a person can read, and the notes that go with it."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from autotune import __version__
from autotune.applying import apply_line, tuned_arguments
from autotune.config import Config
from autotune.facts import Facts
from autotune.numerics import Numerics
from autotune.options import OPTIONS
from autotune.options.accumulation import samples_per_update
from autotune.search.measured import Measured
from autotune.search.setup import Prepared, deciding_limit
from autotune.trials.folder import write_atomically
from autotune.words.text import clean

MIB, GIB = 1 << 20, 1 << 30
SCREENING = "screening: single runs, not verified; no claim of a speed-up follows"
NOT_MEASURED = "not measured, and not verified"


def emit(
    path: Path,
    chosen: Measured,
    baseline: Measured,
    prepared: Prepared,
    *,
    gains: Mapping[str, str] | None = None,
    verified: Mapping[str, Any] | None = None,
    numerics: Numerics | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the config file of one answer.

    Args:
        gains: what each option gave, in words, by name: a comment on its line.
        verified: figures of the verification, where there was one.
        numerics: what was checked of the config's maths; None: nothing, since it is the baseline.
    """
    parts = [
        _head(path, chosen.config, prepared),
        _options(chosen.config, baseline.config, gains or {}),
        _table("measured", _measured(chosen, baseline, prepared, verified)),
        *([_table("numerics", numerics.figures())] if numerics is not None else []),
        _table("workload", _workload(prepared)),
        _table("machine", _machine(prepared)),
        _table("notes", {"lines": [*consequences(chosen.config, baseline.config, prepared.facts), *notes]}),
    ]
    write_atomically(path, "\n".join(parts))


def options_to_write(config: Config, baseline: Config) -> dict[str, Any]:
    """Return what the file must say: values that differ from PyTorch's default, or from what the script sets."""
    return {
        name: value
        for name, value in config.items()
        if value != OPTIONS[name].default or baseline.value(name) != OPTIONS[name].default
    }


def consequences(config: Config, baseline: Config, facts: Facts) -> Iterator[str]:
    """Yield what changed values mean for the training itself."""
    before, after = samples_per_update(baseline), samples_per_update(config)
    if before != after:
        factor = f"{after / before:.3g}"
        yield (
            f"{_changed(config, baseline)} changes the samples per optimizer step by a factor of {factor}. "
            f"The learning rate is left as it is; linear scaling (Goyal et al. 2017) multiplies it by {factor} "
            "and warms it up over the first epochs. A schedule counted in steps passes over "
            f"{factor} times the samples: count it in epochs, or divide its steps by {factor}. "
            "It may train to another result."
        )
        if facts.loss_reduction == "sum":
            yield "The loss sums over the samples: its gradients grow with the batch, on top of what is said above."
    yield from _accumulated(config, baseline, facts)
    precision = config.value("precision")
    if precision != baseline.value("precision"):
        yield (
            f"Precision {baseline.value('precision')} -> {precision}: matrix products and convolutions round "
            "differently. Learning rate and schedule may stay; compare the loss over some hundred steps."
        )
        if precision == "fp16" and facts.script is None:  # a script has a scaler of its own
            yield "fp16 needs the gradient scaler: keep its state in your checkpoints (tuned.state_dict())."
    yield from _of_the_data(config, baseline, facts)
    rounding = config.value("matmul_precision")
    if rounding != baseline.value("matmul_precision"):
        yield (
            f"matmul_precision = {rounding}: float32 matrix products round their inputs to fewer bits (TF32 has 10). "
            "Learning rate and schedule may stay; compare the loss over some hundred steps."
        )
    if config.value("compile_mode") != baseline.value("compile_mode"):
        yield (
            "torch.compile: the first steps take far longer than the others. The model keeps its state_dict keys, and "
            "dropout draws other numbers under the same seed."
        )
        if config.value("compile_mode") == "reduce-overhead":
            yield (
                "reduce-overhead: the model's next call overwrites what the last one returned. Clone what you keep of "
                "it, as an evaluation keeps its predictions, or torch raises an error where it is read."
            )
    if config.value("persistent_workers") and not baseline.value("persistent_workers"):
        yield (
            "persistent_workers: a worker keeps the dataset as it was at the first epoch. What your code sets on it "
            "between epochs (the level of a curriculum, another transform) no longer reaches it."
        )
    if config.value("num_workers") != 0 and facts.seeded_generators:
        names = ", ".join(facts.seeded_generators)
        yield (
            f"The dataset keeps a random generator ({names}): every loader worker starts with a copy of it and draws "
            "the same numbers. Make it in each worker instead (worker_init_fn), or draw from torch's own generator."
        )


def _of_the_data(config: Config, baseline: Config, facts: Facts) -> Iterator[str]:
    """Yield what options of the loader mean for the samples that are seen."""
    length = facts.dataset_length
    if length is None:
        return
    if config.value("drop_last") and not baseline.value("drop_last"):
        rest = length % int(config.value("batch_size"))
        yield (
            f"drop_last leaves out the last {rest} of the {length} samples of every epoch "
            f"({rest / length:.2g} of them): with shuffling others each time, without it always the same."
        )
        if facts.script is None:
            yield (
                "drop_last: tuned.loader() leaves out the rest of other data, too. Where all samples count, as in a "
                "validation, take tuned.batches(DataLoader(...))."
            )
    if config.value("cache_dataset") and not baseline.value("cache_dataset"):
        mib = facts.cache_sample_bytes * length / MIB
        yield (
            f"cache_dataset keeps all {length} samples in host memory, {mib:,.0f} MiB, from the first epoch on: "
            "a dataset that changes from epoch to epoch, or draws at random, must not be kept."
        )


def _head(path: Path, config: Config, prepared: Prepared) -> str:
    source, beside = prepared.source, tuned_arguments(config, prepared.facts, prepared.machine)
    how = apply_line(Path(os.path.relpath(path) if source.unmodified else path.name), source, beside)
    first = "# Made by autotune. Data only: loading it executes nothing.\n"
    # an argument of the script may hold line ends, and characters that no comment of TOML may
    return first + "".join(f"#   {line}\n" for line in clean(how).split("\n"))


def _changed(config: Config, baseline: Config) -> str:
    """Return how the samples of an optimizer step came to be others."""
    if config.value("accumulation") == baseline.value("accumulation") == 1:
        return f"Batch size {baseline.value('batch_size')} -> {config.value('batch_size')}"
    before, after = (f"{item.value('batch_size')} x {item.value('accumulation')}" for item in (baseline, config))
    return f"Batch size x accumulation {before} -> {after}"


def _accumulated(config: Config, baseline: Config, facts: Facts) -> Iterator[str]:
    """Yield what accumulation means for the loop, and where it is not the same as a larger batch."""
    batches, size = int(config.value("accumulation")), int(config.value("batch_size"))
    if batches == 1:
        return
    if batches != baseline.value("accumulation"):
        yield (
            f"{batches} batches of {size} make one optimizer step of {batches * size} samples: tuned.step() is True "
            "only where it updates. Step the scheduler, and count steps, only then. The last group of an epoch may be "
            "smaller, and is stepped at the epoch's end."
        )
    yield from accumulation_warnings(facts)


def accumulation_warnings(facts: Facts) -> Iterator[str]:
    """Yield where accumulated gradients are not those of the whole batch."""
    if facts.batchnorm:
        yield (
            "BatchNorm takes its statistics from each batch by itself: accumulation does not make them those of the "
            "larger batch, so that training differs from one with it."
        )
    if facts.loss_reduction == "sum":
        yield (
            "The loss sums over the samples, and accumulation averages over batches: its gradients are those of the "
            "larger batch divided by the accumulation. Reduce the loss by its mean."
        )
    if facts.loss_reduction == "other":
        yield (
            "The loss is no mean over samples (over tokens or pixels that count, perhaps): each batch weighs by its "
            "samples, however many of those it has, so that gradients are near those of the larger batch, not equal."
        )


def _options(config: Config, baseline: Config, gains: Mapping[str, str]) -> str:
    lines = ["[options]"]
    for name, value in options_to_write(config, baseline).items():
        line = tomli_w.dumps({name: value}).strip()
        said = gains.get(name)
        if said is None:
            before = baseline.value(name)
            said = "as before" if before == value else f"was {_word(before)}"
        lines.append(f"{line}  # {' '.join(clean(said).split())}")
    return "\n".join(lines) + "\n"


def _measured(
    chosen: Measured, baseline: Measured, prepared: Prepared, verified: Mapping[str, Any] | None
) -> dict[str, Any]:
    limit = deciding_limit(prepared.limits, prepared.accelerator)
    figures: dict[str, Any] = {"status": NOT_MEASURED if chosen.sample_s is None else SCREENING}
    if verified:
        figures = dict(verified)
    for name, item in (("baseline", baseline), ("config", chosen)):
        if item.sample_s is not None:  # the verification's own come first
            figures.setdefault(f"{name}_samples_per_s", float(f"{1 / item.sample_s:.4g}"))
        # of all windows too: a config that options were taken back from was never a trial of the search
        peak = max(item.peak_bytes, figures.get(f"{name}_peak_bytes", 0))
        if peak:
            figures[f"{name}_peak_bytes"] = peak
    if "config_peak_bytes" in figures:
        figures["limit_bytes"] = limit
        figures["margin_bytes"] = limit - figures["config_peak_bytes"]
    figures["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    return figures


def _workload(prepared: Prepared) -> dict[str, Any]:
    facts = prepared.facts
    source = prepared.source
    found: dict[str, Any] = {
        "script": source.script,
        "script_sha256": prepared.script_hash,
        "arguments": list(source.arguments),
        "workload": source.workload,
        "functions": dict(source.functions),
        "unmodified": source.unmodified or "",
        "training_loader": "" if facts.script is None or facts.script.loader is None else facts.script.loader,
        "baseline": dict(prepared.space.baseline),
        "model": facts.model,
        "batch": facts.batch_structure,
    }
    if facts.dataset_length is not None:
        found["dataset_length"] = facts.dataset_length
    found = {key: value for key, value in found.items() if value not in ("", [], {})}
    if facts.checkpoint_blocks is not None:  # empty: the model itself
        found["checkpoint_blocks"] = facts.checkpoint_blocks
    return found


def _machine(prepared: Prepared) -> dict[str, Any]:
    machine = prepared.machine
    device = prepared.facts.device
    found = {**machine.identity(device, prepared.facts.device_name), "torch_device": device}
    found |= {"python": machine.python, "autotune": __version__}
    if machine.gpus:
        found["driver"] = machine.gpus[0].driver  # says, too, that there are cards, whatever was measured on
    return found


def _table(name: str, values: Mapping[str, Any]) -> str:
    return tomli_w.dumps({name: dict(values)}, multiline_strings=False)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
