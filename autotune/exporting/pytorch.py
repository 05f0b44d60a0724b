"""pytorch: a training loop in plain PyTorch, which gives the same losses as `Tuned`."""

from __future__ import annotations

import textwrap

from autotune.exporting.base import Export, Target
from autotune.exporting.python import (
    PIECES,
    PLACE,
    assemble,
    head,
    make_loader,
    make_optimizer,
    prepare_model,
    tensor_lines,
)

USAGE = """
Needs torch alone. Yours are the names model, dataset, loss_function (a mean over the samples) and optimizer_class:

    model = prepare_model(model)
    loader = make_loader(dataset, shuffle=True)
    optimizer = make_optimizer(optimizer_class, model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        losses = train_epoch(model, loader, loss_function, optimizer)

Where your batches are no (inputs, target), change the lines in train_epoch that say so.
"""
BEST_DEVICE = 'torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")'
AHEAD = '''
def on_device(loader):
    """Yield the batches on the device; each is copied on a stream of its own while the one before computes."""
    if DEVICE.type == "cpu":  # nothing to copy to
        yield from map(place, loader)
        return
    stream, batches = torch.Stream(DEVICE), iter(loader)

    def begin():
        for batch in batches:
            with stream:
                batch = place(batch)
            return batch, stream.record_event()
        return None

    def hold(tensor):  # its memory is the side stream's, which must not use it again while the step still reads it
        tensor.record_stream(torch.accelerator.current_stream(DEVICE))
        return tensor

    following = begin()
    while following is not None:
        (batch, arrived), following = following, begin()
        torch.accelerator.current_stream(DEVICE).wait_event(arrived)
        yield map_tensors(batch, hold)
'''
WITH_ENDS = '''
def with_ends(batches):
    """Yield each batch with whether it is the last one of the epoch: known by looking one ahead."""
    batches = iter(batches)
    for batch in batches:
        for following in batches:
            yield batch, False
            batch = following
        yield batch, True
'''


class PyTorch(Target):
    name = "pytorch"
    help = "Plain PyTorch: a loader, a model, an optimizer and a loop"
    suffix = ".py"
    # a field that someone adds to the plan is listed as left out until it is written here
    fields = PIECES | {
        "worker_affinity",
        "non_blocking",
        "device_prefetch",
        "accumulation",
        "autocast_dtype",
        "scale_gradients",
    }

    def write(self, export: Export) -> str:
        whole, export = export, self.expressed(export)
        device = 'torch.device("cpu")  # as it was measured' if export.on_cpu else BEST_DEVICE
        scaler = "SCALER = torch.amp.GradScaler(DEVICE.type)" if export.plan.scale_gradients else ""
        return assemble(
            export,
            head(whole, self, USAGE),
            ["import torch", "from torch.utils.data import DataLoader"],
            [
                f"DEVICE = {device}\n{scaler}".strip(),
                prepare_model(export, device=True, doc="Return the model on the device; it is changed in place."),
                make_loader(export),
                make_optimizer(export),
                PLACE,
                _place(export),
                AHEAD if export.plan.device_prefetch else "",
                WITH_ENDS if _looks_ahead(export) else "",
                _train_epoch(export),
            ],
        )


def _looks_ahead(export: Export) -> bool:
    """Whether the end of an epoch is only known by looking for another batch."""
    return export.plan.accumulation > 1 and export.stream


def _place(export: Export) -> str:
    lines = tensor_lines(export)
    copied = "non_blocking=True" if export.plan.non_blocking else ""
    return f'''
def place(batch):
    """Return the batch on the device."""
    return map_tensors(batch, place_tensor)


def place_tensor(tensor):
    tensor = tensor.to(DEVICE{", " + copied if copied else ""})
{lines + chr(10) if lines else ""}    return tensor
'''


def _train_epoch(export: Export) -> str:
    plan = export.plan
    several, scaled = plan.accumulation > 1, plan.scale_gradients
    batches, took = ("on_device(loader)", "batch") if plan.device_prefetch else ("loader", "place(batch)")
    step: list[str] = []
    if several:
        step += ["samples = len(target)", "full = full or samples"]
    loss = "loss = loss_function(model(inputs), target)"
    if plan.autocast_dtype is None:
        step += [loss]
    else:
        step += [f"with torch.autocast(DEVICE.type, torch.{plan.autocast_dtype}):", f"    {loss}"]
    step += ["losses.append(loss.detach())"]
    if several:
        step += [f"loss = loss * (samples / ({plan.accumulation} * full))  # its share of the update"]
    step += ["SCALER.scale(loss).backward()" if scaled else "loss.backward()"]
    if several:
        more = "not last" if _looks_ahead(export) else "number < len(loader)"
        step += [
            "group += samples",
            f"if number % {plan.accumulation} and {more}:",
            "    continue",
            f"if group != {plan.accumulation} * full:  # the last update of an epoch: the mean over fewer samples",
            "    for item in parameters:",
            "        if item.grad is not None:",
            f"            item.grad.mul_({plan.accumulation} * full / group)",
            "group = 0",
        ]
    step += ["if clip_norm is not None:"]
    step += ["    SCALER.unscale_(optimizer)"] if scaled else []
    step += ["    torch.nn.utils.clip_grad_norm_(parameters, clip_norm)"]
    step += ["SCALER.step(optimizer)", "SCALER.update()"] if scaled else ["optimizer.step()"]
    step += ["optimizer.zero_grad(set_to_none=True)"]
    if several:
        step += ["# a scheduler that counts updates belongs here"]
    if _looks_ahead(export):
        loop = f"for number, (batch, last) in enumerate(with_ends({batches}), 1):"
    else:
        loop = f"for number, batch in enumerate({batches}, 1):" if several else f"for batch in {batches}:"
    start = (
        "losses, full, group = [], 0, 0  # samples of a full batch, and of the update so far"
        if several
        else "losses = []"
    )
    return f'''
def train_epoch(model, loader, loss_function, optimizer, clip_norm=None):
    """Train for one epoch; return the loss of each batch."""
    model.train()
    parameters = [item for group in optimizer.param_groups for item in group["params"]]
    {start}
    {loop}
        inputs, target = {took}
{textwrap.indent(chr(10).join(step), " " * 8)}
    return losses
'''
