import sys

import pytest

from kmha.course import jail

EVERYTHING = ["starting processes and using the network", "reading and changing your files"]


def test_what_is_missing(monkeypatch):
    monkeypatch.setattr(jail, "_seccomp_works", lambda: False)
    monkeypatch.setattr(jail, "_landlock_works", lambda: False)
    assert jail.missing() == EVERYTHING
    monkeypatch.setattr(jail, "_seccomp_works", lambda: True)
    assert jail.missing() == EVERYTHING[1:]
    monkeypatch.setattr(jail, "_landlock_works", lambda: True)
    assert jail.missing() == []


def test_on_another_system(monkeypatch):
    monkeypatch.setattr(jail.sys, "platform", "darwin")
    assert jail.missing() == EVERYTHING


def test_without_the_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    monkeypatch.setattr(jail.importlib.util, "find_spec", lambda name: None)
    assert jail.missing() == EVERYTHING


def test_what_may_be_read_are_folders_of_python(tmp_path):
    found = [*jail._python_folders()]
    assert any("site-packages" in folder for folder in found)
    assert sys.prefix not in found
    assert not any(str(tmp_path).startswith(folder) for folder in found)


def test_the_address_space():
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells")
    assert jail._address_space() > 2**20
