from __future__ import annotations

import pytest
from torch.nn.functional import cross_entropy

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, CleanImages, context_of, found_by, images, work


class Accumulates:
    def __init__(self):
        self.seen = 0

    def __call__(self, tuned, model, batch):
        (optimizer,) = tuned.optimizers
        loss = cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        self.seen += 1
        if self.seen % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss


def test_a_tiny_batch_is_found():
    (finding,) = found_by("batchnorm_batches", context_of(work(CleanImages, images), batch_size=4))
    assert "batches of 4 samples" in finding.seen
    assert finding.where[0].startswith("norm (")
    assert finding.gives is Gives.RESULT


def test_accumulation_is_found():
    context = context_of(work(CleanImages, images, training_step=lambda tuned, model, batch: step(tuned, model, batch)))
    (finding,) = found_by("batchnorm_batches", context)
    assert "accumulated over 3 batches" in finding.seen


step = Accumulates()


def test_a_last_batch_of_one_sample_is_found():
    workload = work(CleanImages, lambda: images(length=41))
    (finding,) = found_by("batchnorm_batches", context_of(workload))
    assert "the last batch of an epoch has 1 sample" in finding.seen
    assert "drop_last=True" in finding.remedy[0]


@pytest.mark.parametrize("workload", [work(CleanImages, images), work(Clean)])
def test_enough_samples_are_none(workload):
    assert found_by("batchnorm_batches", context_of(workload)) == []
    assert found_by("batchnorm_batches", context_of(work(Clean), batch_size=2)) == []
