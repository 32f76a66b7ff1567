import sys

import pytest

from kmha.course.exercises import extras


def test_installed_package_is_loaded():
    assert extras.load("json") is sys.modules["json"]


def test_an_import_that_fails_inside_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "outer_of_two.py").write_text("import inner_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="inner_that_is_not_there") as caught:
        extras.load("outer_of_two")
    assert not isinstance(caught.value, extras.MissingPackageError)


def test_missing_package_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(
        extras.MissingPackageError, match=r"^jinja2 is not installed. Run: pip install 'kmha\[course\]'$"
    ):
        extras.load("jinja2")
