"""Dict batches, passed by keyword; the model's output has a `.loss`, like those of the transformers library."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import autotune

VOCABULARY, LENGTH, WIDTH = 50, 12, 16


class ModelOutput(OrderedDict):
    """Entries are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Sentences(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "attention_mask": torch.ones(LENGTH), "labels": tokens}


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True) for _ in range(2)])
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight  # tied

    def forward(self, input_ids, attention_mask=None, labels=None):
        hidden = self.embed(input_ids)
        for block in self.blocks:
            hidden = block(hidden, src_key_padding_mask=attention_mask == 0)
        logits = self.head(hidden)
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return ModelOutput(loss=loss, logits=logits)


workload = autotune.Workload(
    model=LanguageModel,
    dataset=Sentences,
    optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3),
    baseline={"batch_size": 8},
)
