"""Activations in place: only where the gradients of a step stay the same; those that break them are named."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autotune.config import Config
from autotune.errors import WorkloadError
from autotune.inplace import switch_on, switchable
from autotune.options.space import make_space
from autotune.probing.probe import probe
from autotune.records import Limits, Source, TrialSpec
from autotune.tuned import Tuned
from autotune.workload import Workload
from tests.options.contexts import make_context


class Block(nn.Module):
    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.lift, self.norm, self.act, self.drop = nn.Linear(8, 8), nn.LayerNorm(8), act, nn.Dropout(0.3)

    def forward(self, x):
        return x + self.drop(self.act(self.norm(self.lift(x))))


class Residual(Block):
    """The sum needs what the activation would overwrite: its gradient and its value would be others, without a word."""

    def forward(self, x):
        x = self.lift(x)
        return x + self.drop(self.act(x))


class FirstOfAll(Block):
    """The activation overwrites the block's own input, from which recomputation starts."""

    def forward(self, x):
        return self.lift(self.drop(self.act(x)))


class Weights(nn.Module):
    """Dropout after a softmax that saves its result: autograd complains."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.drop = nn.Linear(8, 8), nn.Dropout(0.3)

    def forward(self, x):
        return x * self.drop(torch.softmax(self.score(x), -1))


class Net(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.stem, self.blocks, self.head = nn.Linear(4, 8), nn.ModuleList(blocks), nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def facts_of(model, **others):
    workload = Workload(
        model=model,
        dataset=others.pop("dataset", lambda: TensorDataset(torch.randn(32, 4), torch.randint(3, (32,)))),
        loss=others.pop("loss", nn.CrossEntropyLoss()),
        baseline={"batch_size": 8},
        **others,
    )
    spec = TrialSpec(
        number=0,
        kind="probe",
        config={},
        baseline={},
        source=Source(),
        device="cpu",
        limits=Limits(host_bytes=1 << 40),
        record_path="",
    )
    return probe(workload, spec, lambda *_: None, {"import_s": 0.0})


@pytest.mark.parametrize(
    "act", [nn.ReLU, nn.LeakyReLU, nn.SiLU, nn.ELU, nn.Hardswish, nn.ReLU6, nn.Hardtanh, nn.Mish, nn.CELU, nn.Threshold]
)
def test_activations_after_a_norm_may_overwrite(act):
    make = (lambda: act(0.1, 0.0)) if act is nn.Threshold else act
    facts = facts_of(lambda: Net(Block(make()), Block(make())))
    # what keeps its result for the backward pass leaves no place for the dropout after it
    assert facts.inplace in ("all", "all but blocks.*.drop:Dropout")
    assert facts.inplace_refused is None


def test_those_that_break_the_gradients_are_left_alone_and_named():
    facts = facts_of(lambda: Net(Block(nn.ReLU()), Residual(nn.ReLU()), Weights()))
    assert facts.inplace == ""  # the same path in every block: one that breaks stands for all
    assert facts.inplace_refused.endswith("blocks.*.act:ReLU, blocks.*.drop:Dropout")
    lonely = facts_of(lambda: nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), Weights(), nn.Linear(8, 3)))
    assert lonely.inplace == "all but *.drop:Dropout"


def test_a_residual_sum_that_would_change_without_a_word_is_seen():
    facts = facts_of(lambda: Net(Residual(nn.ReLU()), Residual(nn.ReLU())))
    assert "act:ReLU" in (facts.inplace_refused or facts.inplace)
    assert facts.inplace != "all"


def test_where_none_remain_the_modules_are_named():
    facts = facts_of(lambda: nn.Sequential(nn.Linear(4, 8), Weights(), nn.Linear(8, 3)))
    assert facts.inplace == ""
    assert facts.inplace_refused == "in place they change the gradients, or autograd refuses: *.drop:Dropout"


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: nn.Linear(4, 3), "no module of the model has an inplace switch"),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(inplace=True)), "no module of the model has an inplace switch"),
    ],
)
def test_nothing_to_switch(model, reason):
    assert reason in facts_of(model).inplace_refused


def test_sparse_gradients_are_compared_too():
    def model():
        return nn.Sequential(nn.EmbeddingBag(20, 8, sparse=True), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))

    def rows():
        return TensorDataset(torch.randint(20, (32, 4)), torch.randint(3, (32,)))

    facts = facts_of(model, dataset=rows, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    assert (facts.inplace, facts.inplace_refused) == ("all", None)


def test_an_empty_parameter_has_gradients_that_are_the_same():
    class Spare(nn.Linear):
        def __init__(self) -> None:
            super().__init__(8, 3)
            self.extra = nn.Parameter(torch.zeros(0, 3))

        def forward(self, x):
            return super().forward(x) + self.extra.sum(0)

    facts = facts_of(lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), Spare()))
    assert (facts.inplace, facts.inplace_refused) == ("all", None)


def test_an_own_step_cannot_be_compared():
    def step(tuned, model, batch):
        (optimizer,) = tuned.optimizers
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    facts = facts_of(lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()), loss=None, training_step=step)
    assert "does its own backward passes" in facts.inplace_refused


def test_c74_in_place_at_the_start_of_a_recomputed_block_is_refused_there_alone():
    """LeakyReLU applied to what it was applied to before: other gradients, and no error."""
    facts = facts_of(lambda: Net(*(FirstOfAll(nn.LeakyReLU()) for _ in range(3))))
    assert facts.inplace
    assert facts.chain_refused is None
    assert not facts.inplace_recomputed
    space = make_space(make_context(inplace=facts.inplace, chain_length=3))
    together = Config(batch_size=32, inplace_activations=facts.inplace, checkpoint_segments=3)
    assert "gradients would be wrong" in space.legal(together)
    assert space.legal(together.replace(checkpoint_segments=0)) is None
    assert space.legal(together.replace(inplace_activations="off")) is None


def test_c74_in_place_inside_a_recomputed_block_is_right():
    facts = facts_of(lambda: Net(*(Block(nn.ReLU()) for _ in range(3))))
    assert facts.inplace_recomputed
    space = make_space(make_context(inplace=facts.inplace, inplace_recomputed=True, chain_length=3))
    assert space.legal(Config(batch_size=32, inplace_activations=facts.inplace, checkpoint_segments=3)) is None


def test_training_gives_the_same_losses_and_keys():
    facts = facts_of(lambda: Net(Block(nn.ReLU()), Block(nn.ReLU())))

    def losses(**config):
        torch.manual_seed(0)
        with Tuned(Config(**config), device="cpu") as tuned:
            model = tuned.model(Net(Block(nn.ReLU()), Block(nn.ReLU())))
            optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=0.1)
            numbers = torch.Generator().manual_seed(1)
            found = []
            for _ in range(5):
                inputs = torch.randn(8, 4, generator=numbers)
                loss = nn.functional.cross_entropy(model(inputs), torch.arange(8) % 3)
                tuned.backward(loss)
                tuned.step(optimizer)
                found.append(loss.item())
            return found, list(model.state_dict())

    plain = losses()
    assert losses(inplace_activations=facts.inplace) == plain
    assert losses(inplace_activations=facts.inplace, checkpoint_segments=2) == plain


def test_numbers_in_a_path_stand_for_every_block():
    model = Net(Block(nn.ReLU()), Block(nn.ReLU()), Block(nn.SiLU()))
    assert list(switchable(model)) == ["blocks.*.act:ReLU", "blocks.*.drop:Dropout", "blocks.*.act:SiLU"]
    switch_on(model, "all but blocks.*.drop:Dropout")
    assert [module.inplace for module in model.modules() if hasattr(module, "inplace")] == [True, False] * 3
    assert not any(
        module.inplace for module in switch_on(Net(Block(nn.ReLU())), "off").modules() if hasattr(module, "inplace")
    )


def test_a_model_without_a_module_that_is_to_be_left_alone_is_refused():
    """Wrapped, its modules have other names: all would work in place, and the gradients be others without a word."""
    value = "all but blocks.*.act:ReLU"
    wrapped = nn.Sequential(Net(Residual(nn.ReLU())))
    with pytest.raises(WorkloadError, match=r"leaves blocks\.\*\.act:ReLU alone, and the model has no such module"):
        Tuned(Config(inplace_activations=value)).model(wrapped)
    assert not any(getattr(module, "inplace", False) for module in wrapped.modules())
