"""What the probe finds out: whether the batch size has an effect, whether workers can be used, what is refused."""

from __future__ import annotations

import pytest

from autotune.records import Outcome
from tests.workload.real_trials import SCRIPTS

LINEAR = "model=lambda: nn.Linear(4, 3), loss=nn.CrossEntropyLoss(), baseline={'batch_size': 8}"
DATA = "TensorDataset(torch.randn(LENGTH, 4), torch.randint(0, 3, (LENGTH,)))"


def of_length(length):
    return f"w = autotune.Workload(dataset=lambda: {DATA.replace('LENGTH', str(length))}, {LINEAR})"


@pytest.mark.parametrize("workload", ["stubborn", "batch_sampler", "graph"])
def test_c52_batch_size_without_effect_is_found_by_looking(workload, real):
    facts = real.probe(SCRIPTS / "custom_loader.py", workload=workload)
    assert facts.fixed_batch == "the batch size has no effect: the loader decides it itself"
    record = real.run(
        SCRIPTS / "custom_loader.py",
        config={"batch_size": 8},
        workload=workload,
        dataset_length=facts.dataset_length,
        fixed_batch=True,
    )
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.samples_per_step == 8  # each counts as the baseline's


@pytest.mark.parametrize("length", [2, 3, 5, 9])
def test_c03_small_dataset_is_not_taken_for_a_fixed_batch(length, real, write):
    facts = real.probe(write(of_length(length)))
    assert (facts.fixed_batch, facts.dataset_length) == (None, length)


ONE_SIZE = """
    class Sized(nn.Linear):
        def forward(self, x):
            return super().forward(x) + STATE
    w = autotune.Workload(model=lambda: Sized(4, 3), dataset=lambda: DATA, loss=nn.CrossEntropyLoss(),
                          baseline={"batch_size": 16})
"""


@pytest.mark.parametrize(
    ("state", "length", "fixed"),
    [("torch.zeros(16, 3)", 64, True), ("x.topk(10, 0)[0].mean()", 64, False), ("torch.zeros(16, 3)", 16, False)],
    ids=["one size", "no less than ten", "too few samples to tell"],
)
def test_c52_a_model_made_for_the_baselines_batch_is_probed_at_that(state, length, fixed, real, write):
    facts = real.probe(write(ONE_SIZE.replace("STATE", state).replace("DATA", DATA.replace("LENGTH", str(length)))))
    assert "float32[16, 4]" in facts.batch_structure
    assert (facts.fixed_batch is not None) is fixed
    assert not fixed or "fails on a batch of another size: RuntimeError" in facts.fixed_batch


def test_a_first_step_that_fails_at_the_baselines_batch_too_is_told_of_that(real, write):
    failure = real.refusal(
        write(ONE_SIZE.replace("STATE", "torch.zeros(9, 3)").replace("DATA", DATA.replace("LENGTH", "64")))
    )
    assert "The batch is [float32[16, 4]" in failure.message
    assert "torch.zeros(9, 3)" in failure.traceback
    assert "probe.py" not in failure.traceback


def test_dataset_of_one_sample_is_probed(real, write):
    assert real.probe(write(of_length(1))).dataset_length == 1


def test_object_batches_that_show_nothing_are_not_taken_for_fixed(real, write):
    script = write(f"""
        class Sealed:
            __slots__ = ("parts",)
            def __init__(self, parts): self.parts = parts
            def to(self, device): return Sealed([part.to(device) for part in self.parts])
        def collate(samples):
            return Sealed([torch.stack(part) for part in zip(*samples)])
        def training_step(model, batch):
            return nn.functional.cross_entropy(model(batch.parts[0]), batch.parts[1])
        w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: {DATA.replace("LENGTH", "64")},
                              collate_fn=collate, training_step=training_step, baseline={{"batch_size": 8}})
    """)
    facts = real.probe(script)
    assert facts.fixed_batch is None
    assert facts.batch_structure == "Sealed"


def test_stream_that_each_worker_reads_whole_gets_no_workers(real):
    assert "get_worker_info()" in real.probe(SCRIPTS / "iterable.py", workload="whole").workers_refused


def test_stream_of_random_samples_may_have_workers(real, write):
    script = write(f"""
        class Noise(IterableDataset):
            def __iter__(self):
                while True:
                    yield torch.randn(4), 1
        w = autotune.Workload(dataset=Noise, {LINEAR})
    """)
    assert real.probe(script).workers_refused is None


def test_loader_that_takes_no_workers_says_so(real):
    facts = real.probe(SCRIPTS / "custom_loader.py", workload="narrow")
    assert facts.workers_refused == "loader() takes no num_workers"


def test_batches_without_a_loader_have_no_workers(real):
    assert "without a DataLoader" in real.probe(SCRIPTS / "pre_batched.py", workload="listed").workers_refused


def test_c11_default_collate_of_uneven_samples_is_one_clear_message(real):
    refusal = real.refusal(SCRIPTS / "variable_length.py", workload="unpadded")
    assert (
        "the first batch cannot be loaded: RuntimeError: stack expects each tensor to be equal size" in refusal.message
    )
    assert "collate_fn" in refusal.message


def test_c64_everything_frozen_is_one_clear_message(real):
    assert "no trainable parameters" in real.refusal(SCRIPTS / "parts.py", workload="frozen").message


def test_c62_lazy_modules_with_a_step_of_their_own_are_refused_with_the_way_out(real):
    refusal = real.refusal(SCRIPTS / "parts.py", workload="lazy_own_step")
    assert "lazy modules" in refusal.message
    assert "Run the model once" in refusal.message


def test_c51_batch_larger_than_the_data_counts_what_is_there(real, write):
    script = write(of_length(10))
    record = real.run(script, config={"batch_size": 16}, dataset_length=10)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.samples_per_step == 10


@pytest.mark.parametrize("kind", ["iterable", "loader"])
def test_c51_batch_larger_than_data_of_unknown_length(kind, real):
    script, workload = {"iterable": ("iterable", "whole"), "loader": ("custom_loader", "plain")}[kind]
    length = {"iterable": 90, "loader": 128}[kind]
    facts = real.probe(SCRIPTS / f"{script}.py", workload=workload)
    record = real.run(
        SCRIPTS / f"{script}.py", config={"batch_size": 256}, workload=workload, dataset_length=facts.dataset_length
    )
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.samples_per_step == length


def test_c51_drop_last_of_a_batch_larger_than_the_data_is_no_infinite_speed(real, write):
    record = real.run(write(of_length(10).replace("loss=", "drop_last=True, loss=")), config={"batch_size": 16})
    assert record.outcome is Outcome.ERROR
    assert "an epoch has 0 steps" in record.failure.message


def test_c80_step_that_changes_its_batch_in_place(real, write):
    script = write(f"""
        def training_step(model, batch):
            batch[0].mul_(2)
            return nn.functional.cross_entropy(model(batch[0]), batch[1])
        w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: {DATA.replace("LENGTH", "64")},
                              training_step=training_step, baseline={{"batch_size": 8}})
    """)
    record = real.run(script, config={"batch_size": 8}, dataset_length=64)
    assert record.outcome is Outcome.OK, record.failure


def test_model_with_state_that_is_no_tensor_is_probed(real, write):
    script = write(f"""
        class Extra(nn.Linear):
            def get_extra_state(self): return {{"steps": 3}}
            def set_extra_state(self, state): assert state == {{"steps": 3}}
        w = autotune.Workload(
            model=lambda: nn.Sequential(*[Extra(4, 4) for _ in range(4)]),
            dataset=lambda: {DATA.replace("LENGTH", "64")},
            loss=nn.CrossEntropyLoss(), baseline={{"batch_size": 8}})
    """)
    facts = real.probe(script)
    assert (facts.chain_length, facts.chain_refused) == (4, None)


def test_autocast_and_scaler_of_the_users_own_are_noticed(real, write):
    script = write(f"""
        scaler = torch.amp.GradScaler("cpu")
        def training_step(tuned, model, batch):
            (optimizer,) = tuned.optimizers
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss
        w = autotune.Workload(model=lambda: nn.Linear(4, 3), dataset=lambda: {DATA.replace("LENGTH", "64")},
                              training_step=training_step, baseline={{"batch_size": 8}})
    """)
    facts = real.probe(script)
    assert (facts.own_autocast, facts.own_scaler, facts.uses_tuned_autocast) == (True, True, False)


def test_c49_generators_kept_by_the_dataset_or_its_transforms_are_named(real, write):
    script = write(f"""
        import numpy as np
        class Noise:
            def __init__(self): self.generator = np.random.default_rng(0)
            def __call__(self, x): return x + torch.from_numpy(self.generator.random(4)).float()
        class Compose:
            def __init__(self, *transforms): self.transforms = list(transforms)
        class Drawn(Dataset):
            def __init__(self): self.augment = Compose(Noise())
            def __len__(self): return 64
            def __getitem__(self, index): return self.augment.transforms[0](torch.zeros(4)), 1
        w = autotune.Workload(dataset=lambda: torch.utils.data.Subset(Drawn(), range(32)), {LINEAR})
    """)
    assert real.probe(script).seeded_generators == ("dataset.augment.transforms.generator",)


def test_e7_deterministic_algorithms_are_noticed(real, write):
    assert not real.probe(write(of_length(64))).deterministic
    assert real.probe(write("torch.backends.cudnn.deterministic = True\n" + of_length(64))).deterministic


def test_sampler_decides_the_length_of_an_epoch(real, write):
    script = write(
        of_length(64).replace("loss=", "sampler=lambda data: torch.utils.data.SubsetRandomSampler(range(40)), loss=")
    )
    assert real.probe(script).dataset_length == 40


def test_model_of_the_transformers_library(real, write):
    pytest.importorskip("transformers")
    script = write("""
        from transformers import GPT2Config, GPT2LMHeadModel
        def build_model():
            return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=3, n_head=2))
        class Texts(Dataset):
            def __len__(self): return 64
            def __getitem__(self, index):
                tokens = torch.randint(0, 64, (16,))
                return {"input_ids": tokens, "labels": tokens}
        w = autotune.Workload(model=build_model, dataset=Texts, baseline={"batch_size": 8})
    """)
    facts = real.probe(script)
    assert facts.step == "model(**batch).loss"
    assert facts.chain_length == 3
    assert facts.chain_refused is None
    record = real.run(script, config={"batch_size": 8, "checkpoint_segments": 2}, dataset_length=64)
    assert record.outcome is Outcome.OK, record.failure


COMPILED_STEP = """
    @torch.compile(backend="aot_eager")
    def training_step(model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])
"""
COMPILED_MODEL = """
    def model():
        net = nn.Linear(4, 3)
        net.forward = torch.compile(net.forward, backend="aot_eager")
        return net
"""


@pytest.mark.parametrize(
    ("head", "parts"),
    [
        (COMPILED_STEP, "model=lambda: nn.Linear(4, 3), training_step=training_step"),
        (COMPILED_MODEL, "model=model, loss=nn.CrossEntropyLoss()"),
    ],
    ids=["step", "model"],
)
def test_c20_a_workload_that_compiles_itself_is_noticed(head, parts, real, write):
    data = DATA.replace("LENGTH", "64")
    facts = real.probe(
        write(f"{head}\n    w = autotune.Workload(dataset=lambda: {data}, {parts}, baseline={{'batch_size': 8}})\n")
    )
    assert facts.compiled


@pytest.mark.parametrize(("share", "random"), [(0.5, True), (0.0, False)])
def test_a_step_that_draws_random_numbers_is_noticed(share, random, real, write):
    model = f"model=lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout({share})), loss=nn.CrossEntropyLoss()"
    data = DATA.replace("LENGTH", "64")
    facts = real.probe(write(f"w = autotune.Workload(dataset=lambda: {data}, {model}, baseline={{'batch_size': 8}})"))
    assert facts.draws_random is random
    assert not facts.compiled
