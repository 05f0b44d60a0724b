"""Which outcome an exception or an exit status is."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch

from autotune.outcomes import Classified, classify_error, classify_exit, culprit, failure
from autotune.records import Outcome

OOM, HOST, DEVICE, SHM = Outcome.OUT_OF_MEMORY, "out of host memory", "out of device memory", "out of shared memory"

MEMORY_TEXTS = [
    # accelerators
    ("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.89 GiB", DEVICE),
    ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", DEVICE),
    ("MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: 1 GB)", DEVICE),
    ("HIP out of memory. Tried to allocate 2.00 GiB", DEVICE),
    ("XPU out of memory. Tried to allocate 2.00 GiB", DEVICE),
    ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", DEVICE),
    ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", DEVICE),
    ("NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp:830", DEVICE),
    ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", f"{DEVICE}?"),
    ("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if", f"{DEVICE}?"),
    # the host
    ("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried", HOST),
    ("[Errno 12] Cannot allocate memory", HOST),
    ("Unable to allocate 74.5 GiB for an array with shape (10000000000,)", HOST),
    ("std::bad_alloc", HOST),
    # loader workers
    ("DataLoader worker (pid 12) is killed by signal: Killed.", HOST),
    ("DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that", SHM),
    ("unable to open shared memory object </torch_1_2> in read-write mode: No space", SHM),
    ("unable to allocate shared memory(shm) for file </torch_1_2>: No space left on device (28)", SHM),
    ("unable to write to file </torch_1_2_3>: No space left on device (28)", SHM),
]


@pytest.mark.parametrize(("text", "reason"), MEMORY_TEXTS)
def test_c01_a1_every_text_of_memory_is_told(text, reason):
    assert classify_error(RuntimeError(text)) == Classified(OOM, reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory."), DEVICE),
        (torch.OutOfMemoryError(), DEVICE),
        (MemoryError(), HOST),
        (MemoryError("a text of no meaning"), HOST),
        (np._core._exceptions._ArrayMemoryError((10**10,), np.dtype(float)), HOST),
        (OSError(12, "Cannot allocate memory"), HOST),
    ],
    ids=repr,
)
def test_c01_the_type_says_it_without_a_text(error, reason):
    assert classify_error(error) == Classified(OOM, reason)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shape mismatch: expected channels_last memory format"),
        RuntimeError("required rank 4 tensor to use channels_last format"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        ValueError("your batch ran out of memory slots"),  # the user's own words
        ValueError("Expected more than 1 value per channel when training, got input size [1, 8]"),
        KeyError("cannot allocate memory"),
        AssertionError("CUDA out of memory"),
        SystemExit(1),
    ],
    ids=repr,
)
def test_a2_c01_what_only_sounds_alike_is_the_users_error(error):
    assert classify_error(error) == Classified(Outcome.ERROR, type(error).__name__)


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("CUDA error: an illegal memory access was encountered", Outcome.CRASHED, "illegal memory access"),
        ("DataLoader worker (pid 12) is killed by signal: Segmentation fault. ", Outcome.CRASHED, "a loader worker"),
        ("DataLoader worker (pid(s) 12) exited unexpectedly", Outcome.ERROR, "a loader worker exited unexpectedly"),
        ("[Errno 24] Too many open files", Outcome.ERROR, "too many open files"),
        ("received 0 items of ancdata", Outcome.ERROR, "too many open files"),
    ],
)
def test_c24_other_texts_with_a_meaning(text, outcome, reason):
    found = classify_error(RuntimeError(text))
    assert found.outcome is outcome
    assert found.reason.startswith(reason)


def test_batchnorm_of_one_sample_names_the_way_out():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(3))
    found = classify_error(raised(lambda: model(torch.rand(1, 3))))
    assert found == Classified(Outcome.ERROR, "BatchNorm got one value per channel")
    assert "drop_last=True" in failure(found, "what happened").message


def raised(function):
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        function()
    return caught.value


def own_words():
    try:
        raise RuntimeError("CUDA out of memory.")
    except RuntimeError as error:
        raise ValueError("try a smaller batch") from error


def unrelated():
    try:
        raise KeyError("labels")
    except KeyError as error:
        raise ValueError("the batch has no labels") from error


def test_c77_an_error_in_the_fallback_does_not_hide_the_first_one():
    def fallback():
        try:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        except RuntimeError:
            raise TypeError("forward() missing 1 required argument")  # noqa: B904

    for function in (fallback, own_words):
        error = raised(function)
        assert classify_error(error) == Classified(OOM, DEVICE)
        assert "CUDA out of memory" in str(culprit(error))


def test_a17_the_signal_of_a_worker_is_found_below_its_unexpected_exit():
    def both():
        try:
            raise RuntimeError("DataLoader worker (pid 12) is killed by signal: Segmentation fault. ")
        except RuntimeError as error:
            raise RuntimeError("DataLoader worker (pid(s) 12) exited unexpectedly") from error

    error = raised(both)
    assert classify_error(error) == Classified(Outcome.CRASHED, "a loader worker crashed")
    assert "Segmentation fault" in str(culprit(error))


def test_an_error_raised_on_purpose_stands_for_what_led_to_it():
    error = raised(unrelated)
    assert classify_error(error) == Classified(Outcome.ERROR, "ValueError")
    assert culprit(error) is error


def test_a_chain_that_bites_its_tail_ends():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert classify_error(first).outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("number", "outcome", "reason"),
    [
        (signal.SIGKILL, OOM, f"{HOST}?"),
        (signal.SIGBUS, OOM, SHM),
        (signal.SIGSEGV, Outcome.CRASHED, "killed by signal 11 (SIGSEGV)"),
        (signal.SIGABRT, Outcome.CRASHED, "killed by signal 6 (SIGABRT)"),
        (signal.SIGFPE, Outcome.CRASHED, "killed by signal 8 (SIGFPE)"),
    ],
)
def test_c61_a17_exit_by_signal(number, outcome, reason):
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"kill -{int(number)} $$"], {})
    assert classify_exit(os.waitpid(pid, 0)[1]) == Classified(outcome, reason)


def test_exit_without_a_signal():
    assert classify_exit(3 << 8) == Classified(Outcome.ERROR, "the process ended with status 3")


def test_where_there_is_advice_it_stands_below_the_message():
    found = failure(Classified(OOM, SHM), "what happened", phase="window")
    assert found.message.splitlines()[0] == "what happened"
    assert "--shm-size" in found.message
    assert failure(Classified(OOM, HOST), "what happened").message == "what happened"


def test_c68_what_torch_compile_cannot_do_is_unsupported():
    from torch._dynamo.exc import BackendCompilerFailed, Unsupported
    from torch._inductor.exc import InvalidCxxCompiler

    expected = Classified(Outcome.UNSUPPORTED, "torch.compile failed")
    inner = InvalidCxxCompiler()
    for error in (inner, Unsupported("a graph break"), BackendCompilerFailed(print, inner, None)):
        assert classify_error(error) == expected


def test_memory_that_runs_out_while_compiling_is_memory():
    from torch._dynamo.exc import BackendCompilerFailed

    inner = torch.OutOfMemoryError("CUDA out of memory.")
    error = BackendCompilerFailed(print, inner, None)
    error.__cause__ = inner
    assert classify_error(error).outcome is OOM
