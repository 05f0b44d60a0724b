from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, vectors, work


def test_reads_are_found_at_their_line():
    def step(model, batch):
        loss = cross_entropy(model(batch[0]), batch[1])
        if loss.item() > 1e9:  # read
            raise ValueError
        large = batch[0][batch[0] > 0]  # mask
        return loss + 0 * large.sum()

    (finding,) = found_by("synchronisations", context_of(work(Clean, training_step=step)))
    assert set(finding.where) == {fault("read"), fault("mask")}
    assert finding.seen.startswith("the host waits for a result 2 times in each step")
    assert finding.gives is Gives.ACCELERATOR  # the processor never waits for itself
    assert len(finding.remedy) == 2


def test_printing_a_tensor_is_a_read(capsys):
    def step(model, batch):
        loss = cross_entropy(model(batch[0]), batch[1])
        print(f"{loss:.3f}")  # print
        return loss

    (finding,) = found_by("synchronisations", context_of(work(Clean, training_step=step)))
    assert finding.where == (fault("print"),)


def test_what_torch_reads_by_itself_is_not_the_users():
    workload = work(Clean, vectors, optimizer=lambda params: torch.optim.Adam(params), clip_norm=1.0)
    assert found_by("synchronisations", context_of(workload)) == []
