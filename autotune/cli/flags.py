"""Options that several commands share, as types: one place for their names and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WORKLOAD, SPACE, LIMITS, QUIET = "Workload", "Space", "Limits", "Other programs"

Script = Annotated[Path, typer.Argument(help="The training script.", show_default=False)]
Arguments = Annotated[
    list[str] | None,
    # in the line above the message about an option that is none of ours, since it may be the script's
    typer.Argument(help="The script's own arguments, after --.", metavar="-- arguments", show_default=False),
]
RunArgument = Annotated[
    Path | None, typer.Argument(help="A run folder; without one, the newest under results/.", show_default=False)
]


def _text(flag: str, help: str, panel: str) -> object:
    return typer.Option(flag, help=help, rich_help_panel=panel, show_default=False)


WorkloadName = Annotated[str, _text("--workload", "Name of the Workload, where the script has several.", WORKLOAD)]
ModelName = Annotated[str, _text("--model", "Function that builds the model.", WORKLOAD)]
DatasetName = Annotated[str, _text("--dataset", "Function that builds the dataset.", WORKLOAD)]
OptimizerName = Annotated[str, _text("--optimizer", "Function (parameters) that builds the optimizer.", WORKLOAD)]
LossName = Annotated[str, _text("--loss", "Function (output, target) that returns the loss.", WORKLOAD)]
StepName = Annotated[str, _text("--training-step", "Function (model, batch) that returns the loss.", WORKLOAD)]
CollateName = Annotated[str, _text("--collate-fn", "Function (samples) that makes a batch.", WORKLOAD)]
LoaderName = Annotated[str, _text("--loader", "Function (batch_size, **options) that builds the loader.", WORKLOAD)]
Baseline = Annotated[
    list[str] | None, _text("--baseline", "What you run today: batch_size=64,num_workers=2.", WORKLOAD)
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Keep every run to deterministic algorithms, and leave out what breaks them.",
        rich_help_panel=WORKLOAD,
    ),
]
DeviceName = Annotated[str, _text("--device", "cpu, cuda, cuda:1, ...; without it, the best there is.", WORKLOAD)]

Fix = Annotated[list[str] | None, _text("--fix", "Keep options at a value: precision=fp32.", SPACE)]
Choices = Annotated[list[str] | None, _text("--choices", "Restrict an option: num_workers=0,2,4.", SPACE)]
Exclude = Annotated[list[str] | None, _text("--exclude", "Leave options as the baseline has them.", SPACE)]
Allow = Annotated[
    list[str] | None, _text("--allow", "Try an option that must be asked for: cache_dataset. Repeatable.", SPACE)
]
MaxBatch = Annotated[
    int | None,
    typer.Option("--max-batch", min=1, help="Largest batch size to try.", rich_help_panel=SPACE, show_default=False),
]
BatchStep = Annotated[
    int, typer.Option("--batch-step", min=1, help="Batch sizes are multiples of this.", rich_help_panel=SPACE)
]
EffectiveBatch = Annotated[
    int | None,
    typer.Option(
        "--effective-batch",
        min=1,
        help="Samples per optimizer step: batch size x accumulation, both searched.",
        rich_help_panel=SPACE,
        show_default=False,
    ),
]
KeepBatch = Annotated[
    bool, typer.Option("--keep-batch", help="Keep the baseline's batch size: one answer.", rich_help_panel=SPACE)
]

MemoryLimit = Annotated[
    str | None, _text("--memory-limit", "Memory of the device that a trial may use: 20GiB.", LIMITS)
]
HostMemoryLimit = Annotated[
    str | None, _text("--host-memory-limit", "Host memory that a trial may use; default: 80 % of what is free.", LIMITS)
]
Headroom = Annotated[
    str, typer.Option("--headroom", help="Share kept below the limits for a long run.", rich_help_panel=LIMITS)
]
TrialTimeout = Annotated[
    float,
    typer.Option(
        "--trial-timeout",
        min=1,
        help="Seconds for a trial; compiling is on top.",
        rich_help_panel=LIMITS,
    ),
]
NoSandbox = Annotated[
    bool,
    typer.Option(
        "--no-sandbox",
        help="Let trials write files as the script does, and not into a scratch folder.",
        rich_help_panel=LIMITS,
    ),
]

NoLock = Annotated[
    bool,
    typer.Option("--no-lock", help="Measure although another search does, on the same device.", rich_help_panel=QUIET),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for a search that measures on the same device.", rich_help_panel=QUIET)
]
WaitIdle = Annotated[
    float | None,
    typer.Option(
        "--wait-idle",
        min=0,
        help="Seconds to wait, before each trial, for other programs to leave the machine quiet.",
        rich_help_panel=QUIET,
        show_default=False,
    ),
]
