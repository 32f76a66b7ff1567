import os

import pytest

from kmha.toml_files import MAX_TOML, read_toml


def test_tables(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('[section]\nkey.inner = ["ö", 1.5]\n', encoding="utf-8")
    assert read_toml(path) == {"section": {"key": {"inner": ["ö", 1.5]}}}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = 1\n" + "a." * 4_000 + "a = 1", "line 2 has more than 100 dots"),  # 30,000 parts take 3 GB
        ("a = " + "[" * 20_000, "it is nested too deeply"),
        ("a = " + "{a = " * 10_000, "it is nested too deeply"),
        ("a =", "Invalid value"),
    ],
)
def test_files_that_are_not_read(tmp_path, text, says):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        read_toml(path)


def test_a_file_that_is_too_long(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("#" * MAX_TOML)
    assert read_toml(path) == {}
    path.write_text("#" * (MAX_TOML + 1))
    with pytest.raises(OSError, match="it has more than 64 KiB"):
        read_toml(path)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
@pytest.mark.timeout(20)
def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "a.toml")
    with pytest.raises(OSError, match="not a regular file"):
        read_toml(tmp_path / "a.toml")
