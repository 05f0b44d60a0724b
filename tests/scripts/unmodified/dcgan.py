"""A GAN: two models, two optimizers, three backward passes a step; sample images are saved on the way."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

nz, ngf = 8, 8
torch.manual_seed(7)
dataset = TensorDataset(torch.randn(160, 1, 8, 8).tanh())
dataloader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=0)


def weights_init(m):
    if isinstance(m, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(m.weight, 0.0, 0.02)


netG = nn.Sequential(
    nn.ConvTranspose2d(nz, ngf, 4, 1, 0, bias=False),
    nn.BatchNorm2d(ngf),
    nn.ReLU(True),
    nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
    nn.Tanh(),
)
netD = nn.Sequential(nn.Conv2d(1, ngf, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(ngf, 1, 4), nn.Flatten(0), nn.Sigmoid())
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
fixed_noise = torch.randn(4, nz, 1, 1)

for epoch in range(2):
    for i, data in enumerate(dataloader, 0):
        netD.zero_grad()
        real = data[0]
        label = torch.full((real.size(0),), 1.0)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(torch.randn(real.size(0), nz, 1, 1))
        errD_fake = criterion(netD(fake.detach()), label.fill_(0.0))
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        errG = criterion(netD(fake), label.fill_(1.0))
        errG.backward()
        optimizerG.step()
        print("loss", errG.item().hex())
        if i % 5 == 0:
            with torch.no_grad():
                torch.save(netG(fixed_noise), "fake_samples.pt")
    torch.save(netG.state_dict(), f"netG_epoch_{epoch}.pth")
print("end reached")
