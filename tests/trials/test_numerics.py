"""The numerics guard against options that are broken on purpose, and against ones that are sound."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import IterableDataset, TensorDataset

from autotune.config import Config
from autotune.numerics import Numerics, Status, Task
from autotune.options import OPTIONS, Context, Maths, Option, Value
from autotune.plan import Plan
from autotune.trials.numerics import check_numerics
from autotune.tuned import Tuned
from autotune.workload import Workload
from tests.scripts import gan
from tests.small_models import BATCH, convolutions, data, recurrent, transformer

BASELINE = Config(batch_size=BATCH)
Transform = Callable[[nn.Module], nn.Module]


class Planted(Option):
    """An option of a test: on, it does something to the model."""

    name, help, default = "planted", "what the test wants", False
    affects = frozenset({"compute"})

    def __init__(self, transform: Transform | None, switch: Any, maths: Maths) -> None:
        self.transform, self.switch, self.maths = transform, switch, maths

    def choices(self, context: Context) -> Sequence[Value]:
        return (False, True)

    def apply(self, value: Value, plan: Plan) -> None:
        if value and self.transform is not None:
            plan.model_transforms.append(self.transform)
        if value and self.switch is not None:
            plan.switches.append(self.switch)

    def snippet(self, value: Value) -> str:
        return "# none"


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """Return a function that registers an option and returns the config that has it on."""

    def put(transform: Transform | None = None, *, switch: Any = None, maths: Maths = Maths.EXACT) -> Config:
        monkeypatch.setitem(OPTIONS, "planted", Planted(transform, switch, maths))
        return BASELINE.replace(planted=True)

    return put


def check(workload: Workload, candidate: Config, **task: Any) -> Numerics:
    return check_numerics(workload, BASELINE, candidate, device="cpu", task=Task(**{"steps": 3, **task}))


# -- what it must catch -----------------------------------------------------------------------------------------------


def test_e4_c22_a_reentrant_checkpoint_that_trains_nothing(plant: Callable[..., Config]) -> None:
    def reentrant(model: nn.Module) -> nn.Module:
        forward = model.stem.forward
        model.stem.forward = lambda images: checkpoint(forward, images, use_reentrant=True)
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of inputs without gradients: a log would hold it
        found = check(convolutions(), plant(reentrant))
    assert found.demotes
    assert "no gradient reaches stem.weight" in found.reason


def test_an_in_place_change_that_autograd_sees(plant: Callable[..., Config]) -> None:
    def broken(model: nn.Module) -> nn.Module:
        model.blocks[0].act.register_forward_hook(lambda module, inputs, output: output.mul_(2).mul_(0.5))
        return model

    found = check(convolutions(), plant(broken))
    assert found.demotes
    assert "modified by an inplace operation" in found.reason


def test_an_in_place_change_behind_autograds_back(plant: Callable[..., Config]) -> None:
    class Quiet(nn.Module):
        def forward(self, input: Tensor) -> Tensor:
            input.data.clamp_(min=0)
            return input

    def broken(model: nn.Module) -> nn.Module:
        model.blocks[1].act = Quiet()
        return model

    found = check(convolutions(), plant(broken))
    assert found.demotes
    assert "is off by" in found.reason  # the losses are the same at first


def test_e8_an_accumulation_that_forgets_its_scale(plant: Callable[..., Config]) -> None:
    def summed(model: nn.Module) -> nn.Module:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: 4 * gradient)
        return model

    found = check(transformer(), plant(summed))
    assert found.demotes
    assert found.comparisons[0].norm_ratio is not None
    assert found.comparisons[0].norm_ratio.value == pytest.approx(4)


def test_an_option_that_drops_a_parameter_group(plant: Callable[..., Config]) -> None:
    def dropping() -> Callable[[], None]:
        build = Tuned.optimizer

        def without_the_last(self: Tuned, factory: Any, *args: Any, **kwargs: Any) -> Any:
            made = build(self, factory, *args, **kwargs)
            made.param_groups[0]["params"] = made.param_groups[0]["params"][:-2]
            return made

        def restore() -> None:
            Tuned.optimizer = build  # type: ignore[method-assign]

        Tuned.optimizer = without_the_last  # type: ignore[method-assign]
        return restore

    found = check(convolutions(), plant(switch=dropping))
    assert found.demotes
    assert found.reason == "the steps do not change head.weight, head.bias"


def test_c17_c35_an_fp16_model_that_overflows() -> None:
    class Huge(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
            nn.init.constant_(self.first.weight, 3e4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.first(inputs) / 1e4)

    found = check(vectors(Huge), BASELINE.replace(precision="fp16"))
    assert found.demotes
    assert "fp16 overflows" in found.reason or "not finite" in found.reason


def test_c35_steps_that_the_scaler_skips_are_counted_and_forgiven() -> None:
    def steep(output: Tensor, target: Tensor) -> Tensor:
        return 20 * functional.cross_entropy(output, target)

    found = check(vectors(lambda: nn.Linear(4, 3), loss=steep), BASELINE.replace(precision="fp16"))
    assert found.status is Status.PASSED
    assert found.comparisons[0].skipped_steps > 0
    assert "skipped by the gradient scaler" in found.sentence


def test_c74_rrelu_under_a_checkpoint_that_stops_early(plant: Callable[..., Config]) -> None:
    """Its noise is filled in after it was saved, so that the recomputation may stop before that."""

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.RReLU()) for _ in range(2)])

        def forward(self, inputs: Tensor) -> Tensor:
            return self.blocks(inputs)

    def recomputed(model: nn.Module) -> nn.Module:
        for block in model.blocks:
            forward = block.forward
            block.forward = lambda inputs, forward=forward: checkpoint(forward, inputs, use_reentrant=False)
        return model

    workload = vectors(Noisy)
    assert check(workload, plant(lambda model: model)).status is Status.PASSED
    assert check(workload, plant(recomputed)).demotes


def test_bf16_that_breaks_a_loss_of_huge_numbers() -> None:
    class Offset(nn.Module):
        """Logits that differ by little around a large mean, taken apart by hand."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
            nn.init.constant_(self.head.bias, 3000.0)

        def forward(self, inputs: Tensor) -> Tensor:
            logits = self.head(torch.tanh(self.body(inputs)))
            return logits - 3000.0

    found = check(vectors(Offset), BASELINE.replace(precision="bf16"))
    assert found.demotes


def test_bf16_whose_loss_stands_still_though_its_gradients_are_right() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(4, 32), nn.Linear(32, 64)
            nn.init.constant_(self.head.bias, 2000.0)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(torch.relu(self.body(inputs)))

    def by_hand(scores: Tensor, target: Tensor) -> Tensor:
        shifted = torch.exp(scores - 2000.0)
        return -(shifted.gather(1, target[:, None]) / shifted.sum(1, keepdim=True)).log().mean()

    workload = vectors(Shifted, loss=by_hand, optimizer=lambda params: torch.optim.SGD(params, lr=0.1))
    found = check(workload, BASELINE.replace(precision="bf16"))
    assert found.demotes
    assert "steps lower the loss by" in found.reason


# -- what it must let pass --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (convolutions, {"channels_last": True}),
        (convolutions, {"checkpoint_segments": 2}),
        (convolutions, {"precision": "bf16"}),
        (transformer, {"precision": "bf16", "checkpoint_segments": 2}),
        (recurrent, {"precision": "bf16"}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_c39_c37_sound_options_pass_dropout_and_batchnorm_included(
    make: Callable[[], Workload], change: dict[str, Any]
) -> None:
    found = check(make(), BASELINE.replace(**change))
    assert found.status is Status.PASSED, found
    assert found.steps == 3
    assert len(found.baseline_losses) == 3
    exact = [item for item in found.comparisons if item.claim == "exact"]
    assert bool(exact) == bool(set(change) - {"precision"})
    assert all(item.gradient_error is not None and item.gradient_error.value < 1e-4 for item in exact)
    assert (found.reference == "float64") == bool(exact)
    assert all(item.changed == item.with_gradient == found.with_gradient for item in found.comparisons)


def test_what_changes_nothing_in_a_step_needs_no_run() -> None:
    def never() -> nn.Module:
        raise AssertionError("built")

    found = check(convolutions(model=never), BASELINE.replace(batch_size=64, num_workers=2, num_threads=1))
    assert found.status is Status.UNTOUCHED


def test_random_augmentation_is_drawn_once(plant: Callable[..., Config]) -> None:
    class Augmented(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            inputs, label = super().__getitem__(index)
            return inputs + torch.randn(4), label

    def dataset() -> Augmented:
        return Augmented(torch.randn(64, 4, generator=data()), torch.randint(0, 3, (64,), generator=data()))

    found = check(vectors(lambda: nn.Linear(4, 3), dataset=dataset), plant(lambda model: model))
    assert found.status is Status.PASSED
    assert found.comparisons[0].losses == found.baseline_losses


# -- what it cannot check, and says so --------------------------------------------------------------------------------


def test_a_model_that_leaves_float64_is_held_against_its_own_scatter(plant: Callable[..., Config]) -> None:
    class Single(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(inputs.to(torch.float32))

    found = check(vectors(Single), plant(lambda model: model))
    assert found.status is Status.PASSED
    assert found.reference == "the baseline's own scatter"
    assert any("no float64 run" in note for note in found.notes)
    broken = check(vectors(Single), plant(_halves_gradients))
    assert broken.demotes


def _halves_gradients(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient / 2)
    return model


def test_randomness_that_cannot_be_switched_off_is_no_pass(plant: Callable[..., Config]) -> None:
    class Noise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(inputs + torch.randn_like(inputs))

    def draws_first(model: nn.Module) -> nn.Module:
        model.register_forward_pre_hook(lambda module, inputs: (torch.randn(1), None)[1])
        return model

    found = check(vectors(Noise), plant(draws_first))
    assert found.status is Status.NOT_CHECKED
    assert "draws random numbers" in found.reason


def test_a_baseline_that_is_not_finite_is_not_checked(plant: Callable[..., Config]) -> None:
    def infinite(output: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(output, target) * float("inf")

    found = check(vectors(lambda: nn.Linear(4, 3), loss=infinite), plant(lambda model: model))
    assert found.status is Status.NOT_CHECKED
    assert "the baseline's own loss is not finite" in found.reason


def test_a_baseline_that_raises_is_not_checked(plant: Callable[..., Config]) -> None:
    def failing(output: Tensor, target: Tensor) -> Tensor:
        raise ValueError("only on these samples")

    found = check(vectors(lambda: nn.Linear(4, 3), loss=failing), plant(lambda model: model))
    assert found.status is Status.NOT_CHECKED
    assert "only on these samples" in found.reason


# -- workloads of other kinds -----------------------------------------------------------------------------------------


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        for index in range(64):
            yield torch.randn(4, generator=data(index)), index % 3


def two_optimizers(**changes: Any) -> Workload:
    return dataclasses.replace(gan.workload, **changes)


@pytest.mark.parametrize("kind", ["stream", "pre_batched", "own_loader", "own_step", "clipped", "lazy"])
def test_every_kind_of_workload_is_told_sound_from_broken(kind: str, plant: Callable[..., Config]) -> None:
    whole = TensorDataset(torch.randn(6, BATCH, 4, generator=data()), torch.randint(0, 3, (6, BATCH), generator=data()))
    kinds: dict[str, Workload] = {
        "stream": vectors(lambda: nn.Linear(4, 3), dataset=Stream),
        "pre_batched": vectors(lambda: nn.Linear(4, 3), dataset=lambda batch_size: whole),
        "own_loader": vectors(lambda: nn.Linear(4, 3), dataset=None, loader=lambda batch_size: list(whole)),
        "own_step": two_optimizers(),
        "clipped": vectors(lambda: nn.Linear(4, 3), clip_norm=1e-3),
        "lazy": vectors(lambda: nn.Sequential(nn.LazyLinear(6), nn.Tanh(), nn.LazyLinear(3))),
    }
    sound = check(kinds[kind], plant(lambda model: model))
    assert sound.status is Status.PASSED, sound
    assert sound.with_gradient > 0
    assert check(kinds[kind], plant(_halves_gradients)).demotes


def vectors(model: Callable[[], nn.Module], **changes: Any) -> Workload:
    """Return a classifier of vectors of four numbers."""

    def dataset() -> TensorDataset:
        return TensorDataset(torch.randn(64, 4, generator=data()), torch.randint(0, 3, (64,), generator=data()))

    parts: dict[str, Any] = {"model": model, "dataset": dataset, "loss": nn.CrossEntropyLoss()}
    return Workload(**{**parts, **changes})
