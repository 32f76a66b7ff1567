import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import kmha
from kmha.sandbox import limits, readable
from kmha.sandbox.sandbox import Call

needs_limits = pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")


def test_what_a_task_may_read(tmp_path):
    importlib.import_module("click")  # libraries import others where these are installed, as TensorFlow does with JAX
    found = readable.paths(["numpy"])
    assert str(Path(numpy.__file__).parent) in found
    assert sys.prefix not in found
    assert not any(Path(path).name in ("site-packages", "dist-packages", "kmha", "click") for path in found)
    assert not any(str(tmp_path).startswith(path) for path in found)


def test_keras_needs_its_backend():
    keras = pytest.importorskip("keras")
    names = {Path(path).name for path in readable.paths(["keras"])}
    assert {"keras", keras.config.backend(), "h5py", "optree"} <= names


def test_a_library_from_a_distribution_of_another_name(monkeypatch):
    def distribution(name, known=importlib.metadata.distribution):
        if name == "numpy":
            raise importlib.metadata.PackageNotFoundError(name)
        return known("numpy" if name == "numpy-cpu" else name)

    expected = readable.paths(["numpy"])
    monkeypatch.setattr(readable.metadata, "distribution", distribution)
    monkeypatch.setattr(readable.metadata, "packages_distributions", lambda: {"numpy": ["numpy-cpu"]})
    assert readable.paths(["numpy"]) == expected


def test_what_a_library_requires():
    pytest.importorskip("matplotlib")
    found = [Path(path) for path in readable.paths(["matplotlib"])]
    assert {"matplotlib", "PIL", "dateutil", "numpy"} <= {path.name for path in found}
    # It contains modules of other packages too.
    assert not any(path.name == "__pycache__" and path.parent.name.endswith("-packages") for path in found)


def test_files_are_read_once(tmp_path, monkeypatch):
    """A task told another which files it had read, by their access times."""
    monkeypatch.setattr(readable, "paths", lambda uses: [str(tmp_path / "folder"), str(tmp_path / "file.py")])
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    files = [tmp_path / "file.py", tmp_path / "folder" / "inner" / "other.py"]
    for file in files:
        file.write_text("text")
        os.utime(file, (1e9, 1e9))
    os.mkfifo(tmp_path / "folder" / "pipe")  # reading it would wait forever
    opened = []
    monkeypatch.setattr(
        "builtins.open", lambda file, *_, known=open, **more: opened.append(file) or known(file, *_, **more)
    )
    readable.read_once(["numpy"])
    assert {*opened} == {*map(str, files)}
    if all(file.stat().st_atime > 1e9 for file in files):  # this system keeps access times
        opened.clear()
        readable.read_once(["numpy"])
        assert opened == []


def test_hidden_files_are_left_out(tmp_path):
    for name in ("a/b/hidden.py", "a/b/shown.py", "a/c/other.py", "d/more.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "link").symlink_to("b")
    found = readable.without([str(tmp_path)], [str(tmp_path / "a/b/hidden.py")])
    assert sorted(str(Path(path).relative_to(tmp_path)) for path in found) == ["a/b/shown.py", "a/c", "d"]
    assert readable.without([str(tmp_path)], []) == [str(tmp_path)]


READS = """
import gc, importlib, sys

def tell(action):
    try:
        return str(action())
    except Exception as error:
        return type(error).__name__

def found_again():
    sys.modules["kmha"] = next(each for each in gc.get_objects() if getattr(each, "__name__", "") == "kmha.sandbox")
    return importlib.import_module("kmha.verify")

def f(places):
    return {
        "in sys.modules": [name for name in sys.modules if name.startswith("kmha")],
        "imported": tell(lambda: importlib.import_module("kmha.verify.reference")),
        "found again": tell(found_again),
        "read": [tell(lambda: open(place).read()) for place in places],
        "other": tell(lambda: importlib.import_module("click")),
        "needed": tell(lambda: importlib.import_module("numpy.testing").__name__),
    }
"""
RUN = """
import json, sys
from kmha.sandbox.sandbox import Call, Sandbox

with Sandbox() as sandbox:
    code, places = sys.stdin.read(), sys.argv[1:]
    ran = sandbox.run("f", code, [Call({"places": places})])
    print(json.dumps(ran.results[0].value or ran.results[0].error))
"""


@needs_limits
def test_an_installed_package_cannot_be_read_by_its_own_tasks(tmp_path):
    """An editable installation lies outside the folders that Python reads, a normal one inside."""
    source, installed = Path(kmha.__file__).parent, tmp_path / "lib" / "site-packages"
    shutil.copytree(source, installed / "kmha", ignore=shutil.ignore_patterns("__pycache__"))
    places = [str(folder / "verify" / "reference.py") for folder in (source, installed / "kmha")]
    ran = subprocess.run(
        [sys.executable, "-P", "-c", RUN, *places],
        input=READS,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(installed)},
        check=True,
        cwd=tmp_path,
    )
    found = json.loads(ran.stdout)
    assert found.pop("needed") == "numpy.testing"
    assert found.pop("in sys.modules") == []
    assert found.pop("read") == ["PermissionError"] * 2
    assert {*found.values()} <= {"PermissionError", "ModuleNotFoundError", "ImportError", "StopIteration"}, found


@needs_limits
def test_only_the_libraries_of_the_task_can_be_imported(sandbox):
    code = "import importlib\ndef f(name): return importlib.import_module(name).__name__\n"
    ran = sandbox.run("f", code, [Call({"name": name}) for name in ("keras", "click", "numpy.testing", "wave")])
    assert [result.error is None for result in ran.results] == [False, False, True, True]
