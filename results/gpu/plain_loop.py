"""One config in a plain loop: `plain_loop.py '{"precision": "bf16"}' [MODE]` prints the milliseconds of a step.

No part of the tool's measuring is used here: warm up, wait for the device, take the time of a fixed number of steps.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from workloads import LEARNING_RATE, chosen, loss_function, tiny

import autotune

WARM_STEPS = 15
WARM_S = TIMED_S = 0.1 if tiny() else 2.0


def main() -> None:
    options, mode = json.loads(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    case = chosen()
    torch.manual_seed(0)
    tuned = autotune.Tuned(autotune.Config(**options))
    model = tuned.model(case.model())
    if mode:
        model.compile(mode=mode)
    optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=LEARNING_RATE)
    inputs, target = case.data(case.batch_size, tuned.device)

    def run(steps: int) -> float:
        wait()
        began = time.perf_counter()
        for _ in range(steps):
            with tuned.autocast():
                loss = loss_function(model(inputs), target)
            tuned.backward(loss)
            tuned.step(optimizer)
        wait()
        return (time.perf_counter() - began) / steps

    def wait() -> None:
        if tuned.device.type != "cpu":
            torch.accelerator.synchronize()

    run(WARM_STEPS)  # compiles, too
    step_s = run(WARM_STEPS)
    run(max(1, int(WARM_S / step_s)))
    print(1e3 * run(max(10, int(TIMED_S / step_s))))


if __name__ == "__main__":
    main()
