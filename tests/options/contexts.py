"""Workloads and machines as options see them: plain facts."""

from __future__ import annotations

from autotune.facts import Facts
from autotune.machine import Machine
from autotune.options.base import Context

GIB = 1 << 30


def make_context(
    *,
    cores=8.0,
    baseline=None,
    max_batch=None,
    batch_step=8,
    effective_batch=None,
    host_bytes=None,
    allowed=frozenset(),
    load_s=1e-3,
    **facts,
) -> Context:
    """Return a context of a usual workload; `facts` are fields of `Facts`."""
    known = {
        "device": "cpu",
        "device_name": "a CPU",
        "default_threads": int(cores),
        "native_bf16": True,
        "dataset_length": 10_000,
        "convolution_ranks": (4,),
        "chain": "blocks",
        "chain_length": 6,
        "chain_kind": "blocks",
        "sample_load_s": load_s,
        "sample_compute_s": 1e-3,
    }
    machine = Machine(
        cpu="a CPU",
        usable_cores=cores,
        memory_bytes=16 * GIB,
        available_bytes=8 * GIB,
        shm_free_bytes=GIB,
        load=0.0,
        python="3.11.0",
    )
    return Context(
        facts=Facts(**{**known, **facts}),
        machine=machine,
        baseline={"batch_size": 32} if baseline is None else baseline,
        max_batch=max_batch,
        batch_step=batch_step,
        effective_batch=effective_batch,
        allowed=allowed,
        host_bytes=host_bytes,
    )


def on_cuda(**others) -> Context:
    return make_context(**{"device": "cuda:0", "device_name": "a card", "native_fp16": True, **others})


CONTEXTS = {
    "cpu": make_context(),
    "cuda": on_cuda(),
    "data on the card": on_cuda(on_accelerator=True),
    "one core": make_context(cores=1.0),
    "many cores": on_cuda(cores=192.0),
    "quota": make_context(cores=2.5),
    "small data": make_context(dataset_length=20),
    "stream": make_context(dataset_length=None, iterable=True),
    "batchnorm": make_context(batchnorm=True, dataset_length=97),
    "sequential": on_cuda(chain_kind="sequential", chain_length=9),
    "slow loader": on_cuda(load_s=0.05),
    "compiler": make_context(compile_refused=None),
    "hopper": on_cuda(capability=(9, 0), compile_refused=None),
    "forkserver": make_context(start_method="forkserver"),
    "threads": make_context(threads=2),
    "cached": make_context(allowed=frozenset({"cache_dataset"}), cache_sample_bytes=1000, host_bytes=GIB, load_s=0.01),
    "no precision": make_context(native_bf16=False),
    "effective batch": make_context(effective_batch=96),
    "in place": make_context(inplace="all but blocks.*.drop head"),
    "deterministic": on_cuda(baseline={"batch_size": 32, "deterministic": True}, compile_refused=None),
    "optimizer": make_context(optimizer_impls=("foreach", "fused")),
}
