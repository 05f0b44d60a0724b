"""Fine-tuning a text classifier: batches are dicts of padded ids, masks and labels; sequences differ in length."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, count=160, vocabulary=50, seed=0):
        maker = torch.Generator().manual_seed(seed)
        lengths = torch.randint(4, 40, (count,), generator=maker).tolist()
        self.ids = [torch.randint(1, vocabulary, (length,), generator=maker) for length in lengths]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": int(self.ids[index][0] > 25)}


def collate(samples):
    ids = nn.utils.rnn.pad_sequence([sample["input_ids"] for sample in samples], batch_first=True)
    labels = torch.tensor([sample["labels"] for sample in samples])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


class Classifier(nn.Module):
    def __init__(self, vocabulary, width, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask):
        x = self.encoder(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)
        return self.head(x[:, 0])


def main():
    torch.manual_seed(0)
    model = Classifier(50, 16)
    loader = DataLoader(Sentences(), batch_size=16, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    loss_fn = nn.CrossEntropyLoss()
    model.train()
    for _epoch in range(2):
        for batch in loader:
            batch = {name: value.to("cpu") for name, value in batch.items()}
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
            loss = loss_fn(logits, batch["labels"])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            print("loss", loss.item().hex())
    print("end reached")


if __name__ == "__main__":
    main()
