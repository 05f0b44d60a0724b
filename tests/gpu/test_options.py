"""Each option's effect takes place on the card: seen in the profiler's trace, in tensors, or in the rounding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from autotune.compiling import why_no_compiler
from autotune.config import Config
from autotune.tuned import Tuned
from tests.gpu.steps import Net, assert_updates_as_asked, host_batch, names, traced

pytestmark = pytest.mark.gpu

BATCH = 64


def config(**changes) -> Config:
    return Config(batch_size=BATCH, **changes)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_autocast_computes_in_16_bits(tmp_path: Path, precision, dtype):
    plain, tuned = traced(tmp_path, config()), traced(tmp_path, config(precision=precision))
    assert names(tuned, "kernel") - names(plain, "kernel")  # other kernels, whatever they are called
    with Tuned(config(precision=precision), device="cuda:0") as under:
        model = under.model(Net())
        with under.autocast():
            assert model(torch.randn(2, 3, 8, 8, device="cuda:0")).dtype is dtype


def test_tf32_rounds_matrix_products():
    def error() -> float:
        a, b = (torch.randn(512, 512, device="cuda:0", generator=draw) for _ in range(2))
        return float(((a @ b).double() - a.double() @ b.double()).abs().max())

    draw = torch.Generator("cuda:0").manual_seed(0)
    torch.set_float32_matmul_precision("highest")  # images of NVIDIA's switch TF32 on by an environment variable
    plain = error()
    with Tuned(config(matmul_precision="high"), device="cuda:0"):
        rounded = error()
    assert rounded > 10 * plain
    assert error() < 5 * plain  # and is set back


def test_channels_last_reaches_the_activations():
    for wanted in (False, True):
        with Tuned(config(channels_last=wanted), device="cuda:0") as tuned:
            model = tuned.model(Net())
            seen: list[bool] = []
            model.convolution.register_forward_hook(
                lambda module, args, output, seen=seen: seen.append(
                    output.is_contiguous(memory_format=torch.channels_last)
                )
            )
            model(tuned.place(torch.randn(4, 3, 16, 16)))
        assert seen == [wanted]


@pytest.mark.parametrize("implementation", ["fused", "foreach"])
def test_the_optimizer_runs_as_asked(tmp_path: Path, implementation):
    assert_updates_as_asked(traced(tmp_path, config(optimizer_impl=implementation)), implementation)


def test_pinned_memory_is_pinned():
    assert host_batch(config(pin_memory=True)).is_pinned()
    assert not host_batch(config()).is_pinned()


def test_prefetched_batches_go_on_a_stream_of_their_own_while_the_step_computes(tmp_path: Path):
    prefetching = Config(batch_size=512, pin_memory=True, device_prefetch=True)
    seen = traced(tmp_path, prefetching, side=64, ready=True)
    kernels = [span for span in seen if span.kind == "kernel"]
    copies = [span for span in seen if span.kind == "gpu_memcpy" and "HtoD" in span.name]
    computing = {span.stream for span in kernels}
    beside = [span for span in copies if span.stream not in computing]
    assert beside
    assert any(copy.overlaps(kernel) for copy in beside for kernel in kernels)
    plain = traced(tmp_path, Config(batch_size=512, pin_memory=True), side=64, ready=True)
    assert {span.stream for span in plain if span.kind == "gpu_memcpy" and "HtoD" in span.name} <= {
        span.stream for span in plain if span.kind == "kernel"
    }


def test_reduce_overhead_launches_cuda_graphs(tmp_path: Path):
    if lacking := why_no_compiler("cuda"):
        pytest.skip(lacking)
    torch._dynamo.reset()
    seen = names(traced(tmp_path, config(compile_mode="reduce-overhead"), warm=8))
    assert any("GraphLaunch" in name for name in seen)


def test_cudnn_benchmark_is_on_while_the_config_is_applied():
    with Tuned(config(cudnn_benchmark=True), device="cuda:0"):
        assert torch.backends.cudnn.benchmark
    assert not torch.backends.cudnn.benchmark


def test_deterministic_algorithms_give_the_same_bits():
    values = torch.randn(1 << 20, device="cuda:0")
    where = torch.randint(0, 8, values.shape, device="cuda:0")  # so many sums to one place end in any order
    with Tuned(config(deterministic=True), device="cuda:0"):
        sums = [torch.zeros(8, device="cuda:0").index_add_(0, where, values) for _ in range(8)]
        assert all(torch.equal(found, sums[0]) for found in sums)
        product = torch.randn(64, 64, device="cuda:0") @ torch.randn(64, 64, device="cuda:0")
    assert torch.isfinite(product).all()
    assert not torch.are_deterministic_algorithms_enabled()
