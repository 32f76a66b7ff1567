"""README's code does what its comments say, and its first two commands are those that CI runs."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kmha.cli import main
from kmha.course.exercises.content import items
from kmha.interchange.files import read_file, write_file
from kmha.verify.bank.right_layers import WAYS
from kmha.verify.mistakes import BANK

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.tensorflow
@pytest.mark.parametrize("code", BLOCKS)
def test_code_prints_what_it_says(code):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # noqa: S102 - our own README
    said = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    for line, comment in zip(printed.getvalue().splitlines(), said, strict=True):
        assert comment == line or comment.startswith(line + ", ")


def test_there_is_code():
    assert len(BLOCKS) == 8


def test_the_first_screen_has_the_two_commands():
    first_screen = "\n".join(README.splitlines()[:30])
    assert "pip install -e . && kmha compare\n" in first_screen
    assert "pip install -e '.[test]' && pytest\n" in first_screen


def test_every_difference_is_listed():
    table = README.split("## Where kmha differs")[1].split("\n\n")[2]
    assert len(table.splitlines()) == 2 + 13


def test_the_conversion_prints_what_it_says(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    section = README.split("## Weights from elsewhere")[1]
    [command] = re.findall(r"^```sh\nkmha (.*)\n```$", section, re.MULTILINE)
    [printed] = re.findall(r"^```text\n(.*?)^```$", section.split("\n## ")[0], re.MULTILINE | re.DOTALL)
    shapes = {
        "in_proj_weight": (1536, 512),
        "in_proj_bias": (1536,),
        "out_proj.weight": (512, 512),
        "out_proj.bias": (512,),
    }
    rng = np.random.default_rng(0)
    write_file("attention.safetensors", {name: rng.random(shape, "float32") for name, shape in shapes.items()})
    output = CliRunner().invoke(main, command.split()).output
    assert [line.rstrip() for line in output.splitlines()] == printed.splitlines()
    assert read_file("attention.weights.h5")["key/kernel"].shape == (8, 512, 64)


def test_the_diagnosis_prints_what_it_says(tmp_path, monkeypatch):
    section = README.split("## What is wrong with this layer?")[1].split("\n## ")[0]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0]
    printed = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "my_attention.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(main, ["diagnose", "my_attention:attention"])
    assert result.exit_code == 1
    assert _without_rounding(result.output) == _without_rounding(printed)


def test_the_first_check_prints_what_it_says(tmp_path, monkeypatch):
    section = README.split("## Learn attention by writing it")[1].split("\n## ")[0]
    [printed] = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    [answer] = re.findall(r"ends? with\s`(return .*?)`", section)
    [command] = re.findall(r"`kmha (course check \S+ --seed \d+)`", section)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["course", "start"]).exit_code == 0
    [path] = (tmp_path / "kmha-course").glob("a1_*/cross_kv.py")
    path.write_text(path.read_text().split("    # YOUR CODE HERE")[0] + f"    {answer}\n")
    monkeypatch.chdir(tmp_path / "kmha-course")
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 1
    assert [line.rstrip() for line in result.output.splitlines()] == printed.splitlines()


def test_the_number_of_wrong_answers():
    wrong = sum(len(item.spec.wrong) for item in items())
    assert f"({wrong} of them)" in README


def _without_rounding(text):
    """Lines without the digits of rounding errors, which differ between processors."""
    rounding = r" +(0(?= │)|\d(\.\d)?e-1\d\b)"
    return [re.sub(rounding, " rounding", line.rstrip()) for line in text.strip().splitlines()]


def test_the_size_of_the_bank():
    assert f"It knows {len(BANK)} mistakes," in README
    assert f"in {len(WAYS)} ways of writing" in README.replace("\n", " ")
