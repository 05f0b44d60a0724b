"""Scripts that train through a library's own loop: run where the extra `frameworks` is installed."""

from __future__ import annotations

import pytest

from autotune.facts import ScriptFacts
from autotune.records import Outcome

ACCELERATE = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
data = TensorDataset(torch.randn(128, 16), torch.randn(128, 1))
model = torch.nn.Linear(16, 1)
model, optimizer, training, evaluation = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters()), DataLoader(data, batch_size=16, shuffle=True),
    DataLoader(data, batch_size=16),
)
for epoch in range(1000000):
    for x, y in training:
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for x, y in evaluation:
            assert len(x) == 16, "the config is not for this one"
            model(x)
"""
TRANSFORMERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        return {"input_ids": torch.full((16,), index + 1), "labels": torch.tensor(index % 2)}

config = BertConfig(vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
arguments = TrainingArguments(
    output_dir="out", per_device_train_batch_size=16, per_device_eval_batch_size=8, num_train_epochs=100000,
    report_to=[], eval_strategy="epoch", save_strategy="no", use_cpu=True, disable_tqdm=True,
)
Trainer(BertForSequenceClassification(config), arguments, train_dataset=Texts(), eval_dataset=Texts()).train()
"""


@pytest.mark.parametrize(("library", "script"), [("accelerate", ACCELERATE), ("transformers", TRANSFORMERS)])
def test_batch_size_and_precision_reach_a_librarys_loop(real, write, library, script):
    pytest.importorskip(library)
    path = write(script)
    facts = real.probe(path, unmodified=True)
    assert (facts.fixed_batch, facts.baseline["batch_size"], facts.dataset_length) == (None, 16, 128)
    assert facts.script.made_at.startswith("train.py:")
    record = real.run(
        path,
        config={"batch_size": 32, "precision": "bf16"},
        unmodified=True,
        found=facts.script,
        dataset_length=128,
    )
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.samples_per_step == 32
    assert record.measurement.steps_per_epoch == 4


def test_the_last_step_of_an_epoch_is_timed_though_accelerate_reads_ahead(real, write):
    pytest.importorskip("accelerate")
    path = write(ACCELERATE.replace("loss = torch", "__import__('time').sleep(0.02); loss = torch"))
    record = real.run(path, config={"batch_size": 64}, unmodified=True, found=ScriptFacts(loader=0), dataset_length=128)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.steps_per_epoch == 2
    assert record.measurement.step_s >= 0.02
