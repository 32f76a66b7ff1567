import importlib.util
import os
import re
import sys

import pytest
from click import ClickException

from kmha.cli import common


@pytest.mark.parametrize(
    ("backend", "command"), [("tensorflow", "kmha"), ("jax", "kmha[jax]"), ("torch", "kmha[torch]")]
)
def test_a_backend_that_is_missing(backend, command, monkeypatch):
    before = dict(os.environ)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClickException) as error:
        common.choose_backend(backend)
    assert error.value.message == f"the backend {backend} is not installed. Run: pip install '{command}'"
    assert os.environ == before


def test_the_backends_own_output_is_dropped(capfd):
    with common._silent_stderr():
        os.write(2, b"a note about the machine\n")
    os.write(2, b"an error\n")
    assert capfd.readouterr().err == "an error\n"


def test_standard_error_may_be_closed(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with common._silent_stderr():
        ran = True
    assert ran


@pytest.mark.parametrize(("terminal", "width"), [(False, 118), (True, 71)])
def test_a_table_is_as_wide_as_the_terminal(terminal, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", "71")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    assert common.screen().width == width


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module into the folder that we are in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    names = []

    def write(name, text):
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if name not in sys.modules:
            names.append(name)
        return path

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_load(module):
    module("loaded", "class Outer:\n    class Inner:\n        number = 5\n")
    assert common.load("loaded:Outer.Inner.number") == 5
    module("inside.loaded_too", "number = 7\n")
    assert common.load("inside.loaded_too:number") == 7
    assert common.load("fractions:Fraction").__name__ == "Fraction"


def test_what_a_module_prints_is_no_output_of_ours(module, capsys):
    module("printing", "print('hello')\nnumber = 1\n")
    common.load("printing:number")
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import keras\n\n1 / 0\n",
            r"^cannot import broken: ZeroDivisionError: division by zero \(.*broken.py, line 3\)$",
        ),
        ("import json\njson.loads('')\n", r"JSONDecodeError: .*broken.py, line 2\)$"),
        ("def f(:\n", r"SyntaxError: .*broken.py, line 1\)"),
        ("import nowhere_at_all\n", r"No module named 'nowhere_at_all' \(.*broken.py, line 1\)$"),
        (
            "import sys\nsys.exit(4)\n",
            r"it ends the program: put that below `if __name__ == '__main__':` \(.*line 2\)$",
        ),
    ],
)
def test_a_module_that_fails(module, text, message):
    module("broken", text)
    with pytest.raises(ClickException) as error:
        common.load("broken:thing")
    assert re.search(message, error.value.message), error.value.message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("loaded", "expected MODULE:NAME, such as my_module:MyAttention. Received: 'loaded'."),
        (":thing", "expected MODULE:NAME"),
        ("loaded:", "expected MODULE:NAME"),
        ("loaded.py:thing", "name the module without .py. Received: 'loaded.py:thing'."),
        ("a/loaded:thing", "name the module as Python imports it, a.loaded:thing. Received: 'a/loaded:thing'."),
        ("loaded:thong", "loaded does not have thong. It has: thing."),
        ("loaded:thing.more", "loaded does not have thing.more. It has: nothing callable."),
        ("nowhere:thing", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_names_of_nothing(module, name, message):
    module("loaded", "def thing():\n    pass\n")
    with pytest.raises(ClickException) as error:
        common.load(name)
    assert error.value.message.startswith(message)


def test_a_module_that_python_has_already(module):
    path = module("fractions", "thing = 1\n")
    with pytest.raises(ClickException) as error:
        common.load("fractions:thing")
    assert error.value.message == f"Python has its own module fractions and ignores {path}: rename the file."


def test_our_folder_comes_first_and_once(module):
    module("loaded", "thing = 1\n")
    common.load("loaded:thing")
    common.load("loaded:thing")
    assert sys.path.count(os.getcwd()) == 1
