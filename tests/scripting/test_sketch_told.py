"""`autotune init`: what a script does and the written file does not is in it as a TODO, and said."""

from __future__ import annotations

import pytest

from autotune.facts import ScriptFacts

SCRIPT = """
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, Dataset

    class Data(Dataset):
        def __init__(self, length):
            self.x = torch.randn(length, 3, 8, 8)
        def __len__(self):
            return len(self.x)
        def __getitem__(self, index):
            return self.x[index], index % 2

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, width, 3), nn.Dropout(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.head = nn.Linear(width, 5)
        def forward(self, x):
            return self.head(self.body(x))

    def ahead(batches):
        batches = iter(batches)
        batch = next(batches)
        for following in batches:
            yield batch
            batch = following
        yield batch

    if __name__ == "__main__":
        model = Net(16)
        {made}
        optimizer = torch.optim.SGD({parameters}, lr=0.1)
        {after}
        for epoch in range(20):
            for number, (x, y) in enumerate({batches}):
                {step}
"""
BATCHES = "DataLoader(Data(64), batch_size=4, shuffle=True)"
PLAIN = "optimizer.zero_grad(); cross_entropy(model(x), y).backward(); optimizer.step()"


@pytest.fixture
def sketched(real, write):
    """Write a script down; return the file's text, what a person is to complete, and what it was said to leave out."""

    def sketch(step=PLAIN, *, made="", parameters="model.parameters()", after="", batches=BATCHES):
        parts = {"step": step, "made": made, "parameters": parameters, "after": after, "batches": batches}
        script = write(SCRIPT.format(**parts))
        record = real.run(script, "sketch", unmodified=True, found=ScriptFacts(loader=0), baseline={"batch_size": 4})
        assert record.failure is None, record.failure
        text, told = record.facts["text"], record.facts["left_out"]
        assert text.count("# TODO: ") == len(told)
        return text, record.facts["missing"], told

    return sketch


def every_fourth(loss, change="None"):
    return f"({loss}).backward(); number % 4 == 3 and [{change}, optimizer.step(), optimizer.zero_grad()]"


def test_a_script_that_does_no_more_than_its_steps_is_written_down_whole(sketched):
    text, missing, told = sketched()
    assert not missing
    assert not told
    assert "baseline={'batch_size': 4}" in text


@pytest.mark.parametrize("between", ["", "optimizer.step(); "])
def test_several_backward_passes_on_a_batch_are_not_written_down_as_one(sketched, between):
    loss = "cross_entropy(model(x), y).backward(); "
    text, missing, _ = sketched(f"optimizer.zero_grad(); {loss}{between}{loss}optimizer.step()")
    assert missing == ["training_step"]
    assert "several backward passes on a batch" in text
    assert "accumulation" not in text


def test_a_batch_that_is_read_ahead_is_not_trained_on_twice(sketched):
    """Before the last batch of an epoch the script gets no other one: its step follows on the step before."""
    text, missing, _ = sketched(batches="ahead(DataLoader(Data(8), batch_size=4))")
    assert not missing
    assert "return torch.nn.functional.cross_entropy(output, batch[1])" in text


def test_accumulated_gradients_are_accumulated(sketched):
    clip = "nn.utils.clip_grad_norm_(model.parameters(), 0.5)"
    text, missing, told = sketched(every_fourth("cross_entropy(model(x), y) / 4", clip))
    assert not missing
    assert not told
    assert "    return torch.nn.functional.cross_entropy(output, batch[1])" in text
    assert "clip_norm=0.5," in text
    assert "'accumulation': 4" in text


@pytest.mark.parametrize("weight", ["(number % 3 + 1)", "x.norm()"])
def test_a_loss_that_is_weighed_differently_in_each_step_is_left_to_a_person(sketched, weight):
    loss = f"{weight} * cross_entropy(model(x), y)"
    text, missing, _ = sketched(f"optimizer.zero_grad(); ({loss}).backward(); optimizer.step()")
    assert missing == ["training_step"]
    assert "weighs its loss differently from step to step" in text


def test_a_loss_that_is_weighed_alike_is_written_down_with_its_weight(sketched):
    text, missing, _ = sketched(PLAIN.replace("cross", "(0.5 * cross").replace(".backward", ").backward"))
    assert not missing
    assert "return 0.5 * torch.nn.functional.cross_entropy(" in text


def test_gradients_that_a_script_adds_up_are_no_mean(sketched):
    text, missing, _ = sketched(every_fourth("cross_entropy(model(x), y)"))
    assert not missing
    assert "return 4 * torch.nn.functional.cross_entropy(" in text
    assert "'accumulation': 4" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("nn.utils.clip_grad_value_(model.parameters(), 0.5)", "clip_grad_value_(..., 0.5)"),
        ("nn.utils.clip_grad_norm_(model.head.parameters(), 0.5)", "clip_grad_norm_(..., 0.5)"),
        ("[item.grad.data.clamp_(-1e-4, 1e-4) for item in model.parameters()]", "changes its gradients"),
    ],
)
def test_what_else_is_done_to_gradients_is_said(sketched, change, said):
    text, _, told = sketched(PLAIN.replace("optimizer.step()", f"{change}; optimizer.step()"))
    assert said in " ".join(told)
    assert "clip_norm=" not in text


def test_a_fine_tuned_model_is_built_as_it_is_trained(sketched, real, tmp_path):
    made = "model.head = nn.Linear(16, 2); model.body.requires_grad_(False); model.to(torch.bfloat16)"
    parameters = "[item for item in model.parameters() if item.requires_grad]"
    text, missing, told = sketched(PLAIN.replace("(x)", "(x.bfloat16())"), made=made, parameters=parameters)
    assert not missing
    assert not told
    (tmp_path / "train_tune.py").write_text(text)
    facts = real.probe(tmp_path / "train_tune.py")
    assert (facts.trainable_parameters, facts.parameters) == (34, 482)
    assert facts.trained_formats == ("bfloat16",)


def test_how_else_the_trained_model_is_another_one_is_said(sketched):
    made = (
        "model.load_state_dict(Net(16).state_dict()); model.body[1].p = 0.0; model.body[2].eval(); "
        "model.twin = nn.Linear(16, 5); model.twin.bias = model.head.bias; model.compile(backend='eager')"
    )
    _, missing, told = sketched(made=made)
    assert not missing
    assert told == [
        "the model: the script's has 613 parameters (613 trained), this one 533 parameters (533 trained)",
        "the model: modules that were replaced, added, taken away or tied after it was made: twin",
        "the model: weights that the script sets after it was made, as by loading them: body.0.weight, body.0.bias, "
        "head.weight and 1 more",
        "the model: compiled by the script: the model itself",
        "the model: p is 0.0 in the script, and here 0.1: body.1",
        "the model: training is False in the script, and here True: body.2",
    ]


def test_a_class_is_named_by_the_outermost_package_that_has_it(sketched):
    """Of torch.nn.parallel.data_parallel.DataParallel the module is hidden by a function."""
    text, _, told = sketched(made="model = nn.DataParallel(model)")
    assert not told
    assert "return torch.nn.DataParallel(" in text


def test_a_model_that_the_script_compiles_is_left_to_a_person(sketched):
    text, missing, _ = sketched(made="model = torch.compile(model, backend='eager')")
    assert missing == ["build_model"]
    assert "return the OptimizedModule that train.py trains" in text


@pytest.mark.parametrize(
    ("parameters", "after", "said"),
    [
        (
            "model.parameters()",
            "schedule = torch.optim.lr_scheduler; schedule.StepLR(optimizer, 1); schedule.ReduceLROnPlateau(optimizer)",
            ["by StepLR, ReduceLROnPlateau"],
        ),
        (
            "[{'params': [item]} for item in model.head.parameters()]",
            "optimizer.param_groups[0]['lr'] = 0.05",
            ["has 2 groups of parameters", "lr is 0.05 or 0.1 in the script", "updates 2 of 4 trainable parameters"],
        ),
    ],
)
def test_what_the_optimizer_does_otherwise_is_said(sketched, parameters, after, said):
    text, _, told = sketched(parameters=parameters, after=after)
    assert len(told) == len(said)
    assert all(words in note for words, note in zip(said, told, strict=True))
    assert "return torch.optim.SGD(parameters, lr=0.1)" in text


def test_mixed_precision_and_layout_of_the_script_are_its_baseline(sketched):
    step = (
        "optimizer.zero_grad(); "
        "torch.autocast('cpu', torch.bfloat16).__enter__(); "
        "loss = cross_entropy(model(x), y); loss.backward(); optimizer.step()"
    )
    text, missing, told = sketched(step, made="model.to(memory_format=torch.channels_last)")
    assert not missing
    assert not told
    assert "'precision': 'bf16', 'channels_last': True" in text


def test_switches_that_the_script_sets_are_said(sketched):
    _, _, told = sketched(made="torch.backends.cudnn.benchmark = True")
    assert told == ["the workload: the script sets torch.backends.cudnn.benchmark = True"]
