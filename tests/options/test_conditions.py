"""When each option applies, and to which values."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from autotune.batches import move
from autotune.config import Config
from autotune.errors import UsageError
from autotune.facts import ScriptFacts
from autotune.options import OPTIONS, Inapplicable
from autotune.options.batch_size import BASELINE_MULTIPLE, ladder
from autotune.options.channels_last import tensor_to_channels_last
from autotune.options.space import make_space
from autotune.search.model.candidates import everything, without_conflicts
from autotune.search.model.encoding import Encoding
from autotune.tuned import Tuned
from tests.options.contexts import make_context, on_cuda


def choices(name, context):
    return OPTIONS[name].choices(context)


def reason(name, context):
    found = choices(name, context)
    assert isinstance(found, Inapplicable), found
    return found.reason


# -- batch sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [8, 24, 1024])
def test_c03_a_ladder_without_a_rung_is_empty(step):
    assert ladder(step, step - 1) == []


def test_c03_ladder_of_eights():
    assert ladder(8, 130) == [8, 16, 24, 32, 48, 64, 96, 128]
    assert ladder(8, 136) == [8, 16, 24, 32, 48, 64, 96, 128, 136]
    assert ladder(1, 7) == [1, 2, 3, 4, 6, 7]


@given(step=st.integers(1, 64), top=st.integers(1, 5000))
def test_c03_ladder_is_of_multiples_close_together(step, top):
    if top < step:
        return
    sizes = ladder(step, top)
    assert sizes == sorted(set(sizes))
    assert all(size % step == 0 and step <= size <= top for size in sizes)
    assert sizes[0] == step
    assert sizes[-1] == top // step * step
    assert all(high <= max(1.5 * low, low + step) for low, high in itertools.pairwise(sizes[1:]))


@given(step=st.sampled_from([1, 2, 4, 8, 16]), top=st.integers(16, 5000))
def test_c03_neighbours_are_within_half_from_the_second_on(step, top):
    sizes = [size for size in ladder(step, top) if size >= 2 * step] if top >= step else []
    assert all(high <= 1.5 * low for low, high in itertools.pairwise(sizes))


@settings(max_examples=200)
@given(
    length=st.none() | st.integers(1, 500),
    maximum=st.none() | st.integers(1, 300),
    step=st.sampled_from([1, 3, 8]),
    today=st.integers(1, 600),
    batchnorm=st.booleans(),
    drop_last=st.booleans(),
)
def test_c03_sizes_never_go_beyond_data_or_maximum(length, maximum, step, today, batchnorm, drop_last):
    context = make_context(
        dataset_length=length,
        max_batch=maximum,
        batch_step=step,
        baseline={"batch_size": today},
        batchnorm=batchnorm,
        drop_last=drop_last,
    )
    found = choices("batch_size", context)
    top = min(maximum or BASELINE_MULTIPLE * today, length or 10**9)
    if isinstance(found, Inapplicable):
        assert found.keep  # the workload is still built with today's
        assert top < step or (batchnorm and not drop_last)
        return
    assert all(size <= top and size % step == 0 for size in found)
    space = make_space(context)
    for size in found if batchnorm and not drop_last and length is not None else ():
        left_over = length % size == 1 and size > 1
        assert (space.legal(Config(batch_size=size)) is not None) == left_over
        assert space.legal(Config(batch_size=size, drop_last=True)) is None


def test_c03_fifty_samples_allow_forty_eight():
    assert max(choices("batch_size", make_context(dataset_length=50))) == 48


def test_c03_five_samples_say_what_remains():
    found = reason("batch_size", make_context(dataset_length=5))
    assert "5 samples at most" in found
    assert "--batch-step 1" in found
    assert choices("batch_size", make_context(dataset_length=5, batch_step=1)) == [1, 2, 3, 4, 5]


def test_b5_a_last_batch_of_one_sample_under_batchnorm_takes_drop_last():
    space = make_space(make_context(dataset_length=97, batchnorm=True))
    assert 16 in space.choices["batch_size"]
    assert "BatchNorm refuses" in space.legal(Config(batch_size=16))
    assert space.legal(Config(batch_size=16, drop_last=True)) is None
    assert space.legal(Config(batch_size=64)) is None


@pytest.mark.parametrize("others", [{"custom_loader": True}, {"fixed_batch": None, "excluded": ["drop_last"]}])
def test_b5_where_the_last_batch_is_not_ours_to_leave_out_such_sizes_are_no_choices(others):
    excluded = others.pop("excluded", [])
    space = make_space(make_context(dataset_length=97, batchnorm=True, **others), excluded=excluded)
    assert space.choices["batch_size"] == (64,)
    assert 16 in choices("batch_size", make_context(dataset_length=97, batchnorm=True, drop_last=True))


@pytest.fixture
def without_compile_mode():
    """Take the option out, and put all back in their order."""
    every = dict(OPTIONS)
    OPTIONS.pop("compile_mode", None)
    yield
    OPTIONS.clear()
    OPTIONS.update(every)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, "costs nothing extra"),
        ({"batchnorm": True}, "costs nothing extra"),
        ({"batchnorm": True, "dataset_length": 97, "drop_last": True}, "leaves it out already"),
        ({"batchnorm": True, "dataset_length": 97, "custom_loader": True}, "not made here"),
        ({"batchnorm": True, "dataset_length": None}, "nobody knows how long"),
        ({"batchnorm": True, "dataset_length": 4096, "max_batch": 16}, "no batch is left over"),
    ],
)
@pytest.mark.usefixtures("without_compile_mode")
def test_drop_last_is_offered_only_where_a_ragged_batch_costs(facts, says):
    assert says in reason("drop_last", make_context(**facts))


def test_drop_last_is_offered_where_other_shapes_are_compiled_or_tuned_again():
    assert choices("drop_last", on_cuda()) == (False, True)  # cuDNN's benchmark mode
    assert choices("drop_last", make_context(dataset_length=97, batchnorm=True)) == (False, True)


def test_b2_c51_drop_last_never_leaves_out_everything():
    context = make_context(dataset_length=49, batchnorm=True, baseline={"batch_size": 64})
    space = make_space(context)
    too_many = {"batch_size": 64, "drop_last": True}
    assert space.legal(Config(**too_many)) is not None
    assert "all of the 49 samples" in OPTIONS["drop_last"].conflict(too_many, context)
    assert space.legal(Config(batch_size=48, drop_last=True)) is None


COMPILED = {"batch_size", "accumulation", "compile_mode"}


@pytest.mark.parametrize(
    "space",
    [
        make_space(make_context(dataset_length=97, batchnorm=True), restricted={"num_workers": [0]}),
        make_space(on_cuda(effective_batch=96, compile_refused=None), excluded=sorted(OPTIONS.keys() - COMPILED)),
        make_space(
            on_cuda(compile_refused=None),
            restricted={"deterministic": (False, True), "batch_size": [8]},
            excluded=sorted(OPTIONS.keys() - COMPILED - {"cudnn_benchmark", "deterministic"}),
        ),
    ],
    ids=["batchnorm", "graphs", "deterministic"],
)
def test_conflicting_rows_are_no_candidates(space):
    encoding = Encoding(space)
    rows = everything(encoding)
    left = {encoding.config(row) for row in without_conflicts(encoding, rows)}
    assert left == {config for row in rows if space.legal(config := encoding.config(row)) is None}
    assert 0 < len(left) < len(rows)


def test_c52_batch_size_without_effect_keeps_todays():
    found = choices("batch_size", make_context(fixed_batch="the loader decides"))
    assert found == Inapplicable("the loader decides", keep=True)


# -- loader ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "workers"), [(1.0, [0, 1]), (1.5, [0, 1]), (2.0, [0, 1, 2]), (4.0, [0, 1, 2, 3, 4])])
def test_c30_workers_are_bounded_by_the_usable_cores(cores, workers):
    assert choices("num_workers", make_context(cores=cores)) == workers


def test_c09_no_workers_is_always_a_choice():
    assert all(0 in choices("num_workers", make_context(cores=float(cores))) for cores in (1, 2, 8, 64, 256))


def test_c30_one_core_of_many_by_affinity():
    text = (
        "from autotune.machine import Machine; from autotune.options import OPTIONS; from types import SimpleNamespace;"
        "m = Machine.read(); f = SimpleNamespace(workers_refused=None);"
        "print(m.usable_cores, OPTIONS['num_workers'].choices(SimpleNamespace(machine=m, facts=f)))"
    )
    ended = subprocess.run(
        ["taskset", "-c", "0", sys.executable, "-c", text], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "1.0 [0, 1]\n", ended.stderr


@pytest.mark.parametrize(
    "name", ["num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "worker_affinity"]
)
def test_refused_workers_take_their_options_along(name):
    assert "cannot be sent" in reason(name, make_context(workers_refused="the dataset cannot be sent"))


def test_c09_experts_workers_follow_the_loader():
    expert = OPTIONS["num_workers"].expert
    assert expert(make_context(load_s=1e-6)) == 0
    assert expert(on_cuda(cores=16.0, load_s=3e-3)) == 3
    assert expert(on_cuda(cores=4.0, load_s=1.0)) == 4
    assert expert(make_context(cores=1.0, load_s=1.0)) == 1
    assert expert(on_cuda(workers_refused="no", load_s=1.0)) == 0


@pytest.mark.parametrize(
    ("facts", "offered"),
    [
        ({"threads": 1}, ("default", "forkserver")),
        ({"start_method": "forkserver"}, ("default", "fork")),
        ({"start_method": "spawn"}, ("default", "fork")),
        ({"start_method": "forkserver", "fork_only": "cannot be sent"}, ("fork",)),
        ({"baseline": {"batch_size": 32, "multiprocessing_context": "spawn"}}, ("default", "spawn")),
    ],
)
def test_methods_of_starting_workers_are_offered_where_they_matter(facts, offered):
    assert choices("multiprocessing_context", make_context(**facts)) == offered


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, "fork starts workers fastest"),
        ({"fork_only": "cannot be sent"}, "cannot be sent"),
        ({"fork_only": "cannot be sent", "threads": 1}, "cannot be sent"),
    ],
)
def test_c15_methods_that_do_not_work_say_why(facts, says):
    assert says in reason("multiprocessing_context", make_context(**facts))


def test_c15_a_method_that_cannot_work_is_refused_by_name():
    with pytest.raises(UsageError, match="cannot be sent"):
        make_space(
            make_context(start_method="forkserver", fork_only="cannot be sent"),
            fixed={"multiprocessing_context": "spawn"},
        )


def test_spawned_workers_are_expected_to_cost_an_epoch_its_start():
    option, context = OPTIONS["multiprocessing_context"], make_context(dataset_length=1000)
    assert option.prior("spawn", context).loader > option.prior("forkserver", context).loader > 0
    assert option.prior("spawn", make_context(dataset_length=10_000_000)).loader < 0.01
    assert option.prior("fork", make_context(dataset_length=1000, start_method="spawn")).loader < -0.5


def test_affinity_takes_cores_to_share_out():
    assert choices("worker_affinity", make_context(cores=4.0)) == (False, True)
    assert "too few to share" in reason("worker_affinity", make_context(cores=3.5))
    assert "your own" in reason("worker_affinity", make_context(custom_loader=True))


def cached(**others):
    return make_context(**{"allowed": {"cache_dataset"}, "cache_sample_bytes": 1000, "host_bytes": 1 << 30, **others})


def test_samples_are_kept_only_where_asked_for_and_possible():
    assert choices("cache_dataset", cached()) == (False, True)
    assert choices("cache_dataset", cached(allowed=set(), baseline={"cache_dataset": True})) == (False, True)
    assert "--allow cache_dataset" in reason("cache_dataset", cached(allowed=set()))
    assert reason("cache_dataset", cached(cache_refused="two reads differ")) == "two reads differ"


def test_samples_that_do_not_fit_are_not_kept_and_the_figures_say_so():
    found = reason("cache_dataset", cached(cache_sample_bytes=1 << 20))
    assert "10,000 samples of 1,048,576 bytes take 9.77 GiB, and 1 GiB of host memory" in found


def test_expert_keeps_samples_that_are_slow_to_read():
    assert OPTIONS["cache_dataset"].expert(cached(load_s=1e-2)) is True
    assert OPTIONS["cache_dataset"].expert(cached(load_s=1e-5)) is False
    assert OPTIONS["cache_dataset"].expert(cached(allowed=set())) is False


def test_device_prefetch_needs_an_accelerator_and_pinned_memory():
    assert "accelerator" in reason("device_prefetch", make_context())
    space = make_space(on_cuda())
    assert space.canonical(Config(pin_memory=False, device_prefetch=True)) == space.canonical(Config(pin_memory=False))
    assert space.canonical(Config(pin_memory=True, device_prefetch=True))["device_prefetch"] is True


def test_expandable_segments_are_a_setting_of_cuda():
    option = OPTIONS["expandable_segments"]
    assert "CUDA" in reason("expandable_segments", make_context())
    assert choices("expandable_segments", on_cuda()) == (False, True)
    assert reason("expandable_segments", on_cuda(allocator_refused="the environment sets it")).startswith("the env")
    assert "PYTORCH_CUDA_ALLOC_CONF" in option.snippet(True).first  # which torch 2.9 heeds, too
    assert option.expert(on_cuda(variable_shapes=True)) is True
    assert option.expert(on_cuda()) is False


def test_c41_pinned_memory_needs_an_accelerator():
    assert "accelerator" in reason("pin_memory", make_context())
    assert choices("pin_memory", on_cuda()) == (False, True)


@pytest.mark.parametrize("name", ["pin_memory", "device_prefetch"])
def test_batches_that_lie_on_the_accelerator_are_neither_pinned_nor_copied(name):
    there = on_cuda(on_accelerator=True)
    assert "on the accelerator already" in reason(name, there)
    space = make_space(there)
    assert name not in space.choices
    assert space.expert().value(name) is False


# -- compute ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "applies"), [((), False), ((3,), False), ((4,), True), ((5,), True), ((3, 4, 5), True)]
)
def test_c32_channels_last_needs_weights_of_rank_four_or_five(ranks, applies):
    found = choices("channels_last", make_context(convolution_ranks=ranks))
    assert (found == (False, True)) if applies else ("convolution" in found.reason)


def test_c32_images_alone_are_laid_out():
    batch = [
        torch.zeros(2, 3, 4, 4),
        torch.zeros(2, 4, 4),
        torch.zeros(2, dtype=torch.long),
        torch.zeros(2, 3, 4, 4).long(),
    ]
    moved = move(batch, torch.device("cpu"), transforms=[tensor_to_channels_last])
    layouts = [item.dim() == 4 and item.is_contiguous(memory_format=torch.channels_last) for item in moved]
    assert layouts == [True, False, False, False]
    assert tensor_to_channels_last(torch.zeros(1, 2, 3, 3, 3)).is_contiguous(memory_format=torch.channels_last_3d)


def test_c32_model_with_convolutions_of_both_ranks_is_laid_out():
    from autotune.config import Config

    model = nn.ModuleList([nn.Conv2d(2, 4, 3), nn.Conv3d(2, 4, 3), nn.Conv1d(2, 4, 3), nn.Linear(2, 2)])
    keys = list(model.state_dict())
    tuned = Tuned(Config(channels_last=True), device="cpu").model(model)
    assert tuned[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert tuned[1].weight.is_contiguous(memory_format=torch.channels_last_3d)
    assert list(tuned.state_dict()) == keys


@pytest.mark.parametrize("made", [False, True])
def test_c32_a_lazy_convolution_is_laid_out_once_its_weight_is_there(made):
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.Conv2d(4, 4, 3))
    if made:
        model(torch.zeros(1, 3, 8, 8))
    tuned = Tuned(Config(channels_last=True), device="cpu")
    model = tuned.model(model)
    copy.deepcopy(model)(tuned.place(torch.zeros(1, 3, 8, 8)))
    model(tuned.place(torch.zeros(1, 3, 8, 8)))
    for layer in model:
        assert layer.weight.is_contiguous(memory_format=torch.channels_last)
        assert not layer.weight.is_contiguous()
        assert not layer._forward_pre_hooks


@pytest.mark.parametrize(
    ("facts", "formats"),
    [
        ({"native_bf16": True}, ["fp32", "bf16"]),
        ({"native_bf16": True, "native_fp16": True}, ["fp32", "bf16", "fp16"]),
        ({"native_bf16": False, "native_fp16": True}, ["fp32", "fp16"]),
        ({"native_bf16": True, "native_fp16": True, "own_step": True}, ["fp32", "bf16"]),
        ({"native_bf16": True, "native_fp16": True, "own_scaler": True}, ["fp32", "bf16"]),
        ({"native_bf16": True, "trained_formats": ("bfloat16", "float32")}, ["fp32", "bf16"]),
    ],
)
def test_c34_formats_are_those_of_the_device(facts, formats):
    assert choices("precision", make_context(**facts)) == formats


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"native_bf16": False}, "a CPU has no native bf16, and fp16 on a CPU is many times slower"),
        ({"own_autocast": True}, "already enters torch.autocast"),
        ({"own_step": True, "uses_tuned_autocast": False}, "never enters tuned.autocast()"),
        ({"trained_formats": ("bfloat16", "float64")}, "the trained parameters are bfloat16 and float64"),
        (
            {
                "device": "cuda:0",
                "device_name": "a card",
                "native_bf16": False,
                "native_fp16": True,
                "own_scaler": True,
            },
            "needs a scaler",
        ),
    ],
)
def test_c34_precision_that_cannot_be_chosen_says_why(facts, says):
    assert says in reason("precision", make_context(**facts))


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"device": "cpu"}, "CUDA devices only"),
        ({"convolution_ranks": ()}, "no convolution"),
        ({"deterministic": True}, "deterministic"),
        ({"variable_shapes": True}, "shapes vary"),
    ],
)
def test_c43_e7_cudnn_benchmark_needs_fixed_shapes_and_no_determinism(facts, says):
    assert choices("cudnn_benchmark", on_cuda()) == (False, True)
    assert says in reason("cudnn_benchmark", on_cuda(**facts))


def test_deterministic_algorithms_are_kept_by_every_run_and_what_breaks_them_is_left_out():
    assert "--deterministic" in reason("deterministic", on_cuda())
    assert "itself" in reason("deterministic", on_cuda(deterministic=True))
    wished = on_cuda(baseline={"batch_size": 32, "deterministic": True}, compile_refused=None)
    space = make_space(wished)
    assert space.baseline["deterministic"] is True
    assert space.choices["deterministic"] == (True,)
    assert "deterministic" in space.reasons["cudnn_benchmark"]
    assert "max-autotune-no-cudagraphs" not in space.choices["compile_mode"]
    assert space.canonical(Config(batch_size=64))["deterministic"] is True
    assert space.expert()["deterministic"] is True


def test_what_determinism_costs_can_be_measured():
    space = make_space(on_cuda(), restricted={"deterministic": (False, True)})
    assert space.choices["deterministic"] == (False, True)
    assert space.choices["cudnn_benchmark"] == (False, True)
    assert "fastest" in space.legal(Config(deterministic=True, cudnn_benchmark=True))
    assert space.legal(Config(deterministic=True)) is None


def test_threads_are_those_of_the_machine():
    assert choices("num_threads", make_context(cores=8.0)) == [1, 4, 7, 0]
    assert choices("num_threads", make_context(cores=8.0, default_threads=4)) == [1, 0, 7, 8]
    assert "one core" in reason("num_threads", make_context(cores=1.0))
    assert "accelerator" in reason("num_threads", on_cuda())


def test_c38_segments_are_within_the_chain():
    assert choices("checkpoint_segments", make_context(chain_length=6)) == [0, 3, 6]
    assert choices("checkpoint_segments", make_context(chain_length=2)) == [0, 1, 2]
    assert choices("checkpoint_segments", make_context(chain_kind="sequential", chain_length=16)) == [0, 2, 4]
    assert reason("checkpoint_segments", make_context(chain_refused="a block keeps state")) == "a block keeps state"


def test_switches_are_set_and_set_back():
    from autotune.config import Config

    before = torch.get_num_threads(), torch.backends.cudnn.benchmark
    with Tuned(Config(num_threads=before[0] + 1, cudnn_benchmark=True), device="cpu"):
        assert (torch.get_num_threads(), torch.backends.cudnn.benchmark) == (before[0] + 1, True)
    assert (torch.get_num_threads(), torch.backends.cudnn.benchmark) == before


def test_conditions_look_at_facts_alone():
    """An option that read the machine itself would choose otherwise in the steering process than in a trial."""
    context = SimpleNamespace(machine=SimpleNamespace(usable_cores=3.0), facts=SimpleNamespace(workers_refused=None))
    assert choices("num_workers", context) == [0, 1, 2, 3]


# -- compiling -------------------------------------------------------------------------------------


def test_matmul_precision_needs_a_card_with_tf32():
    assert "NVIDIA" in reason("matmul_precision", on_cuda())
    assert "7.5, below 8.0" in reason("matmul_precision", on_cuda(capability=(7, 5)))
    assert choices("matmul_precision", on_cuda(capability=(8, 0))) == ("highest", "high", "medium")
    assert "the script sets" in reason("matmul_precision", on_cuda(capability=(8, 0), matmul_precision="high"))


def test_c68_compiling_needs_a_compiler():
    assert reason("compile_mode", make_context(compile_refused="no g++")) == "no g++"
    assert "no g++" in reason("activation_memory_budget", make_context(compile_refused="no g++"))
    assert OPTIONS["compile_mode"].refusal("default", make_context(compile_refused="no g++")) == "no g++"


def test_c20_what_compiles_itself_is_not_compiled_again():
    assert "calls torch.compile itself" in reason("compile_mode", make_context(compile_refused=None, compiled=True))


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"variable_shapes": True}, "one shape"),
        ({"synchronizes": ("train.py, line 12",)}, "train.py, line 12"),
        ({"moves_parameters": True}, "addresses"),
        ({"script": ScriptFacts(batches_per_update=2)}, "next batch of the same update"),
        ({"device": "xpu:0"}, "CUDA device"),
    ],
)
def test_cuda_graphs_are_offered_only_where_they_can_hold_a_step(facts, why):
    assert "reduce-overhead" in choices("compile_mode", on_cuda(compile_refused=None))
    context = on_cuda(compile_refused=None, **facts)
    assert "reduce-overhead" not in choices("compile_mode", context)
    assert why in OPTIONS["compile_mode"].refusal("reduce-overhead", context)
    assert OPTIONS["compile_mode"].refusal("default", context) is None


def test_cuda_graphs_do_not_accumulate_gradients():
    space = make_space(on_cuda(compile_refused=None, effective_batch=64))
    graphs = space.baseline.replace(compile_mode="reduce-overhead", batch_size=32)
    assert "next batch of the same update" in (space.legal(graphs.replace(accumulation=2)) or "")
    assert space.legal(graphs.replace(batch_size=64, accumulation=1)) is None
    assert space.legal(graphs.replace(compile_mode="default", accumulation=2)) is None


def test_c19_a_cpu_is_not_offered_what_compiles_for_minutes():
    context = make_context(compile_refused=None)
    assert choices("compile_mode", context) == ("off", "default")
    assert OPTIONS["compile_mode"].expert(context) == "off"
    assert OPTIONS["compile_mode"].expert(on_cuda(compile_refused=None)) == "default"


def test_recomputing_random_numbers_is_refused():
    context = make_context(compile_refused=None, draws_random=True)
    assert "gradients would be wrong" in reason("activation_memory_budget", context)
    assert OPTIONS["activation_memory_budget"].refusal(30, context)
