"""`autotune run`: the script to its end, with a config, and nothing left behind."""

from __future__ import annotations

import hashlib
import sys

import pytest
import torch
from torch import nn
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader

from autotune import cli
from autotune.config import Config
from autotune.scripting.run import AppliedConfig, run_script
from tests.scripting.conftest import PROGRAMS, losses_in


@pytest.fixture
def run(capsys):
    """Run a program with options; return its status, what was applied, and the losses it printed."""

    def run_program(script, *arguments, training=0, **options):
        told = []
        applied = AppliedConfig(Config(**options), training, told.append)
        status = run_script(script, arguments, applied)
        assert len(told) <= 1
        return status, applied, losses_in(capsys.readouterr().out)

    return run_program


def patched():
    """Return everything that scripting patches, and the hooks that torch holds for all."""
    return (
        *(DataLoader.__init__, DataLoader.__iter__, nn.Module.__call__, torch.autograd.backward),
        *(torch.autocast.__enter__, torch.amp.GradScaler.scale, torch.amp.GradScaler.__init__, torch.set_num_threads),
        *(torch.optim.Adam.__init__, sys.modules["__main__"], sys.argv, list(sys.path)),
        dict(optimizers._global_optimizer_pre_hooks),
        dict(optimizers._global_optimizer_post_hooks),
        torch.backends.cudnn.benchmark,
        nn.Sequential.__call__,
    )


@pytest.mark.parametrize("name", ["digits", "accumulating", "gan", "memmap", "stream"])
def test_the_default_config_changes_no_loss_and_nothing_stays_patched(run, alone, name):
    before = patched()
    torch.set_num_threads(1)
    status, _, losses = run(PROGRAMS / f"{name}.py", training=None)
    assert patched() == before
    assert status == 0
    assert losses == alone(PROGRAMS / f"{name}.py")  # bit for bit


def test_a_config_is_applied_to_the_training_alone(run):
    status, applied, losses = run(
        PROGRAMS / "digits.py", "--samples", "96", batch_size=48, precision="bf16", optimizer_impl="foreach"
    )
    assert status == 0
    assert applied.applied.keys() == {"batch_size", "precision", "optimizer_impl"}
    assert applied.refused == {}
    assert len(losses) == 4  # two epochs of two batches
    test_loader = applied.loaders.seen[1]
    assert not applied.loaders.is_training(test_loader)


def test_what_cannot_be_applied_is_said_with_the_reason(run):
    _, applied, _ = run(PROGRAMS / "accumulating.py", precision="bf16", checkpoint_segments=2)
    assert "torch.autocast itself" in applied.refused["precision"]
    assert "no chain of blocks" in applied.refused["checkpoint_segments"]
    _, applied, _ = run(PROGRAMS / "memmap.py", batch_size=64, num_workers=2, checkpoint_segments=2)
    assert applied.applied.keys() == {"checkpoint_segments"}
    assert "no DataLoader" in applied.refused["num_workers"]


def test_an_optimizer_without_the_implementation_is_not_said_to_have_it(run, write):
    script = write("""
        import torch
        from torch import nn
        model = nn.Linear(4, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(8, 4)).square().mean()
            loss.backward()
            return loss
        optimizer.step(closure)
    """)
    _, applied, _ = run(script, optimizer_impl="foreach")
    assert applied.refused == {"optimizer_impl": "LBFGS does not take it"}


def test_fp16_without_a_scaler_of_the_script_is_left_out(run, alone):
    torch.set_num_threads(1)
    _, applied, losses = run(PROGRAMS / "digits.py", precision="fp16")
    assert "gradient scaler" in applied.refused["precision"]
    assert losses == alone(PROGRAMS / "digits.py")


def test_outputs_stay_in_the_format_that_the_script_was_written_for(run, write):
    script = write("""
        import torch
        from torch import nn
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            output = model(torch.ones(2, 4))
            assert output.dtype is torch.float32, output.dtype
            seen = []
            handle = model.register_forward_hook(lambda module, inputs, out: seen.append(out.dtype))
            model(torch.ones(2, 4))
            handle.remove()
            print(seen)
            assert seen == [torch.bfloat16]
            output.sum().backward()
            optimizer.step()
    """)
    status, applied, _ = run(script, precision="bf16")
    assert status == 0
    assert "precision" in applied.applied


def test_a_model_saved_whole_loads_without_us(run, write, tmp_path):
    script = write(f"""
        import copy, torch
        from torch import nn
        model = nn.Sequential(nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        copy.deepcopy(model)(torch.ones(2, 4))
        torch.save(model, {str(tmp_path / "model.pt")!r})
    """)
    status, _, _ = run(script, precision="bf16")
    assert status == 0
    data = (tmp_path / "model.pt").read_bytes()
    assert b"autotune" not in data


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["autotune", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("import sys\nsys.exit(7)", 7, ""),
        ("import sys\nsys.exit('no data')", 1, "no data"),
        ("def f():\n    raise KeyError('weights')\nf()", 1, "raise KeyError('weights')"),
        ("print('done')", 0, "not applied: batch_size=8: the script trains on no DataLoader"),
    ],
)
def test_the_command_ends_as_the_script_does(monkeypatch, capsys, write, text, status, says):
    config = write("[options]\nbatch_size = 8\n", "best.toml")
    code, _out, err = command(monkeypatch, capsys, "run", write(text), "--config", config)
    assert code == status
    assert says in err
    assert "scripting/" not in err


def test_what_the_script_does_by_itself_is_not_missed(monkeypatch, capsys, write):
    """The tool's own config of a script that makes its batches itself names their size."""
    script = write("print('done')")
    sha256 = hashlib.sha256(script.read_bytes()).hexdigest()
    text = f"[options]\nbatch_size = 8\n[workload]\nscript_sha256 = '{sha256}'\nbaseline = {{ batch_size = 8 }}\n"
    _code, _out, err = command(monkeypatch, capsys, "run", script, "--config", write(text, "best.toml"))
    assert "not applied" not in err
    assert "sets nothing beside what the script does by itself" in err
    changed = write(text.replace(sha256, "of another"), "other.toml")
    _code, _out, err = command(monkeypatch, capsys, "run", script, "--config", changed)
    assert "not applied: batch_size=8" in err


def test_the_command_says_what_it_applied_and_to_what(monkeypatch, capsys, write):
    config = write("[options]\nbatch_size = 84\nprecision = 'bf16'\n", "best.toml")
    script = PROGRAMS / "digits.py"
    code, out, err = command(monkeypatch, capsys, "run", script, "--config", config, "--", "--epochs", "3")
    assert code == 0
    assert len(losses_in(out)) == 6
    assert "applied: batch_size=84 (loader of digits.py:" in err
    assert "applied: precision=bf16" in err


def test_a_run_without_a_config_asks_for_one(monkeypatch, capsys, write, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, err = command(monkeypatch, capsys, "run", write("print(1)"))
    assert code == 2
    assert "--config best.toml" in err


def test_a_loader_that_nothing_tells_from_an_evaluations_is_not_changed_and_that_is_said(run, write):
    script = write("""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, in DataLoader(TensorDataset(torch.ones(64, 4)), batch_size=8):
            assert len(x) == 8
            model(x).sum().backward()
            optimizer.step()
    """)
    status, applied, _ = run(script, training=None, batch_size=16)
    assert status == 0
    assert "none of the script's loaders shuffles" in applied.refused["batch_size"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            "batch_size=1, shuffle=False, sampler=None, drop_last=False, batch_sampler=[[0, 1, 2], [3, 4, 5]] * 4",
            "the batch_sampler of train.py",
        ),
        ("batch_size=None, sampler=[[0, 1, 2], [3, 4, 5]] * 4, drop_last=False", "yields whole batches"),
    ],
)
def test_a_loader_whose_batches_are_decided_elsewhere_may_be_given_every_argument(run, write, given, says):
    """As libraries make one that know all of them."""
    script = write(f"""
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        class Data:
            def __len__(self):
                return 6

            def __getitem__(self, index):
                return torch.ones(4) if isinstance(index, int) else torch.ones(len(index), 4)

        for x in DataLoader(Data(), {given}):
            assert len(x) == 3
            model(x).sum().backward()
            optimizer.step()
    """)
    status, applied, _ = run(script, batch_size=16, drop_last=True, num_workers=1)
    assert status == 0
    assert applied.applied.keys() == {"num_workers"}
    assert all(says in applied.refused[name] for name in ("batch_size", "drop_last"))


@pytest.mark.parametrize("size", ["8", "8 + number"])
def test_the_data_of_a_loader_that_the_script_gives_up_go_with_it(run, write, size):
    script = write(f"""
        import gc, weakref, torch
        from torch.utils.data import DataLoader, TensorDataset
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def rollout():
            data = TensorDataset(torch.ones(32, 4))
            kept.append(weakref.ref(data))
            return data

        kept = []
        for number in range(6):
            for x, in DataLoader(rollout(), batch_size={size}, shuffle=True):
                model(x).sum().backward()
                optimizer.step()
        gc.collect()
        alive = [data() is not None for data in kept]
        assert not any(alive[1:]), alive
    """)
    status, applied, _ = run(script, batch_size=16)
    assert (status, "batch_size" in applied.applied) == (0, True)
