"""Scripts of a package, which run as `python -m package.script`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotune.scripting.main_module import run_as_main
from autotune.workload.package import Place, place_of

RELATIVE = "from .nets import build_model\n"


@pytest.fixture
def package(tmp_path):
    """Make a package in a package, whose script is given; return the script's path."""

    def make(text, name="train.py"):
        folder = tmp_path / "project" / "vision"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").touch()
        (folder / "nets.py").write_text("import torch\ndef build_model(): return torch.nn.Linear(4, 1)\n")
        script = folder / name
        script.write_text(text)
        return script

    return make


@pytest.mark.parametrize(
    ("text", "module"),
    [
        (RELATIVE, "project.vision.train"),
        ("def main():\n    from ..data import load\n", "project.vision.train"),
        ("from nets import build_model\n", ""),
        (f"try:\n    {RELATIVE}except ImportError:\n    from nets import build_model\n", ""),
        (f"if __package__:\n    {RELATIVE}else:\n    from nets import build_model\n", ""),
    ],
)
def test_a_script_that_imports_relatively_is_a_module_of_its_package(package, tmp_path, text, module):
    script = package(text)
    place = place_of(script)
    assert place.module == module
    assert place.folder == (tmp_path if module else script.parent)


def test_a_package_needs_no_init_file(tmp_path):
    (tmp_path / "vision").mkdir()
    script = tmp_path / "vision" / "train.py"
    script.write_text(RELATIVE)
    assert place_of(script).module == "vision.train"
    assert place_of(script).folder == tmp_path
    script.write_text("from ..data import load\n")
    assert place_of(script).module == f"{tmp_path.name}.vision.train"


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from project.vision.nets import build_model\n", "project.vision.train"),
        ("def main():\n    import shared.data\n", "project.vision.train"),
        ("import shared, nets\n", ""),  # it is run from its own folder
        ("import sys\nsys.path.insert(0, '../..')\nimport shared\n", ""),
        ("try:\n    import shared\nexcept ImportError:\n    pass\n", ""),
        ("import runs, absent, torch\n", ""),
    ],
)
def test_a_script_that_imports_from_above_is_a_module_beside_that(package, tmp_path, text, module):
    script = package(text)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data.py").touch()
    (tmp_path / "runs").mkdir()  # of other files
    place = place_of(script)
    assert place.module == module
    assert place.folder == (tmp_path if module else script.parent)


def test_what_an_earlier_run_imported_makes_no_difference(package, monkeypatch):
    script = package("import project\nfrom project.vision.nets import build_model\n")
    for module in ("project", "project.vision", "project.vision.nets"):
        monkeypatch.setitem(sys.modules, module, None)
        del sys.modules[module]
    for _ in range(2):
        run_as_main(script, ())
    assert "project.vision.nets" in sys.modules


@pytest.mark.parametrize(
    ("module", "imported", "line"),
    [
        ("", "train", "import train"),
        ("project.train", "train", "from . import train"),
        ("project.train", "project.nets.small", "from .nets import small"),
        ("project.vision.train", "train", "from ..vision import train"),
        ("project.vision.train", "project.nets", "from .. import nets"),
    ],
)
def test_a_module_beside_a_script_imports_as_of_its_package(module, imported, line):
    assert Place(Path(), module).importing(imported) == line


@pytest.mark.parametrize(("name", "spec"), [("train.py", ".train"), ("__main__.py", ".__main__")])
def test_a_script_of_a_package_runs_as_a_module_of_it(package, capsys, monkeypatch, name, spec):
    script = package(
        RELATIVE + "import sys\nif __name__ == '__main__':\n"
        "    print(__package__, __spec__.name, build_model.__module__, sys.argv[1:])\n",
        name,
    )
    for module in ("project", "project.vision", "project.vision.nets"):
        monkeypatch.setitem(sys.modules, module, None)  # forgotten at the end
        del sys.modules[module]
    run_as_main(script, ("a",))
    # as `python -m project.vision` prints it
    assert capsys.readouterr().out == f"project.vision project.vision{spec} project.vision.nets ['a']\n"
