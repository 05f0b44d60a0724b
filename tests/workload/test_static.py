"""C06: a look at the source alone tells whether importing the script would train."""

from __future__ import annotations

from textwrap import dedent

import pytest

from autotune.workload.static import look

TRAINS = {
    "loop at top level": "for i in range(3):\n    loss = step()\n    loss.backward()",
    "function called at top level": "def main():\n    loss.backward()\nmain()",
    "function of a function": "def inner():\n    loss.backward()\ndef main():\n    inner()\nmain()",
    "trainer": "trainer = Trainer()\ntrainer.fit(model)",
    "trainer made in place": "L.Trainer(max_epochs=3).fit(model)",
    "trainer of the transformers library": "trainer = Trainer(model=model)\ntrainer.train()",
    "method of the script": "class Loop:\n    def run(self):\n        loss.backward()\nLoop().run()",
    "constructor of the script": "class Loop:\n    def __init__(self):\n        loss.backward()\nLoop()",
    "manual backward": "fabric.manual_backward(loss)",
    "in a try": "try:\n    main()\nexcept KeyboardInterrupt:\n    pass\ndef main():\n    loss.backward()",
    "in a with": "with torch.device('cpu'):\n    loss.backward()",
    "as an argument": "def main():\n    loss.backward()\nsys.exit(main())",
}
DOES_NOT = {
    "guard": "def main():\n    loss.backward()\nif __name__ == '__main__':\n    main()",
    "guard written the other way": "if '__main__' == __name__:\n    loss.backward()",
    "functions alone": "def train():\n    loss.backward()\nclass A:\n    def fit(self):\n        loss.backward()",
    "lambda": "step = lambda loss: loss.backward()",
    "recursion": "def f():\n    f()\nf()",
    "scaler of features": "scaler = StandardScaler()\nscaler.fit(x)\nLabelEncoder().fit(y)",
    "mode": "model.train()\nmodel.eval()",
    "scheduler": "scheduler.step()",
    "training named and not called": "def main():\n    loss.backward()\nentry = main",
    "workload": "w = autotune.Workload(model=lambda: net(), training_step=lambda m, b: m(b).backward())",
}


def looked(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(dedent(text))
    return look(path)


@pytest.mark.parametrize("name", TRAINS)
def test_c06_training_on_import_is_seen(name, tmp_path):
    found = looked(tmp_path, TRAINS[name]).trains
    assert found is not None
    assert found.text in TRAINS[name]


@pytest.mark.parametrize("name", DOES_NOT)
def test_c06_what_does_not_train_is_let_through(name, tmp_path):
    assert looked(tmp_path, DOES_NOT[name]).trains is None


def test_c06_line_is_that_of_the_call(tmp_path):
    found = looked(tmp_path, "x = 1\n\ndef main():\n    loss.backward()\n\nmain()\n").trains
    assert (found.line, found.text) == (6, "main()")


def test_c07_arguments_at_top_level_are_seen(tmp_path):
    assert looked(tmp_path, "args = parser.parse_args()").parses_arguments.line == 1
    assert looked(tmp_path, "def main():\n    args = parser.parse_args()").parses_arguments is None


def test_guard_is_seen(tmp_path):
    assert looked(tmp_path, DOES_NOT["guard"]).has_guard
    assert not looked(tmp_path, TRAINS["loop at top level"]).has_guard


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfx = 1\n", b"# coding: latin-1\nx = '\xe9'\n", b"", b"x = 1\r\n"])
def test_any_source_that_python_reads_is_read(content, tmp_path):
    (tmp_path / "script.py").write_bytes(content)
    assert look(tmp_path / "script.py").trains is None


def test_expression_too_deep_for_the_parser_is_an_error_of_ours(tmp_path):
    from autotune.errors import AutotuneError

    (tmp_path / "script.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    with pytest.raises(AutotuneError, match="cannot be parsed"):
        look(tmp_path / "script.py")
