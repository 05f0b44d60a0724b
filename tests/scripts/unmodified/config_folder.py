"""Reads its settings from a file in its own folder, and imports a module beside it."""

import json
from pathlib import Path

import torch
from networks import make_network
from torch.utils.data import DataLoader, TensorDataset

SETTINGS = json.loads((Path(__file__).parent / "settings.json").read_text())


def main():
    torch.manual_seed(SETTINGS["seed"])
    data = TensorDataset(torch.randn(SETTINGS["samples"], 6), torch.randn(SETTINGS["samples"], 1))
    loader = DataLoader(data, SETTINGS["batch_size"], True)
    model = make_network(SETTINGS["width"])
    optimizer = torch.optim.SGD(model.parameters(), lr=SETTINGS["lr"])
    for _epoch in range(SETTINGS["epochs"]):
        for x, y in loader:
            loss = torch.nn.functional.l1_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", loss.item().hex())
    Path(__file__).with_name("last_run.json").write_text(json.dumps({"loss": loss.item()}))
    print("end reached")


if __name__ == "__main__":
    main()
