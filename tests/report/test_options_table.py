"""The table of options."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from autotune.facts import Facts
from autotune.machine import Machine
from autotune.options import OPTIONS
from autotune.options.base import Context
from autotune.options.space import make_space
from autotune.report.options import print_options
from tests.report.factory import console_of, text_of


@pytest.fixture
def space():
    facts = Facts(
        device="cpu",
        device_name="A CPU",
        dataset_length=5000,
        default_threads=4,
        native_bf16=True,
        chain_refused="no blocks in [self.layers]",
        inplace="all but encoder.*:Dropout2d decoder.*:Dropout2d head.*:Dropout2d",
    )
    machine = Machine(
        cpu="A CPU",
        usable_cores=4.0,
        memory_bytes=1 << 33,
        available_bytes=1 << 33,
        shm_free_bytes=None,
        load=0.0,
        python="3.11",
    )
    context = Context(facts=facts, machine=machine, baseline={"batch_size": 100, "num_workers": 2})
    return make_space(context, excluded=["num_threads"])


def shown(space, width):
    console = console_of(width)
    print_options(console, space)
    return text_of(console)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_every_option_is_there_and_every_line_fits(space, width):
    text = shown(space, width)
    assert all(name in text for name in OPTIONS)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text  # a value that names modules leaves the others their room


def test_todays_value_is_marked_even_beside_the_choices(space):
    text = shown(space, 200)
    assert "beside them [100]" in text
    assert "0 1 [2] 3 4" in text
    assert "[fp32] bf16" in text


def test_reasons(space):
    text = shown(space, 160)
    assert "no blocks in [self.layers]" in text
    assert "there is no accelerator to copy to" in text
    assert "excluded" in text
    assert "* may change the training result." in text
