"""Two networks, two optimizers, one loader; images of the generator now and then."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.rand(200, 1, 8, 8)), batch_size=8, shuffle=True, drop_last=True)
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64), nn.Unflatten(1, (1, 8, 8)))
discriminator = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(36, 1))
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
fixed = torch.randn(8, 4)
for epoch in range(2):
    for i, (real,) in enumerate(loader):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        discriminator.zero_grad()
        criterion(discriminator(real), ones).backward()
        fake = generator(torch.randn(len(real), 4))
        criterion(discriminator(fake.detach()), zeros).backward()
        of_discriminator.step()
        generator.zero_grad()
        loss = criterion(discriminator(fake), ones)
        loss.backward()
        of_generator.step()
        print("loss", loss.item().hex())
        if i % 10 == 0:
            with torch.no_grad():
                generator(fixed)
