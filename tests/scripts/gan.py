"""Two optimizers and a training step that does its own backward passes."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autotune


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def build_optimizers(model):
    return [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (model.generator, model.critic)]


def training_step(tuned, model, batch):
    (real,) = batch
    generator, critic = tuned.optimizers
    with tuned.autocast():
        fake = model.generator(torch.randn(len(real), 2, device=real.device))
        scores = model.critic(torch.cat([real, fake.detach()]))
        wanted = torch.cat([torch.ones(len(real), 1), torch.zeros(len(real), 1)]).to(real.device)
        critic_loss = functional.binary_cross_entropy_with_logits(scores, wanted)
    critic.zero_grad()
    critic_loss.backward()
    critic.step()
    with tuned.autocast():
        generator_loss = -model.critic(fake).mean()
    generator.zero_grad()
    generator_loss.backward()
    generator.step()
    return critic_loss + generator_loss


workload = autotune.Workload(
    model=Pair,
    dataset=lambda: TensorDataset(torch.randn(160, 4)),
    training_step=training_step,
    optimizer=build_optimizers,
    baseline={"batch_size": 16},
)
