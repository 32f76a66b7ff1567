"""The code and the commands in every README do what stands there, and its links lead somewhere."""

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

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "assignments/ADDING.md", *sorted((ROOT / "kmha").rglob("README.md")))
}
README = PAGES["README.md"]


def _fenced(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _section(page, heading):
    return re.split(r"\n## ", PAGES[page].split(f"\n## {heading}\n")[1])[0]


CODE = [pytest.param(code, id=f"{page}-{n}") for page in PAGES for n, code in enumerate(_fenced(PAGES[page], "python"))]


@pytest.mark.tensorflow
@pytest.mark.parametrize("code", CODE)
def test_code_prints_what_it_says(code):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # noqa: S102 - our own README
    comments = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    if comments:
        for line, comment in zip(printed.getvalue().splitlines(), comments, strict=True):
            assert comment == line or comment.startswith(line + ", ")


def test_there_is_code():
    assert len(CODE) == 16


def test_the_first_screen_has_the_two_commands_and_the_three_doors():
    first_screen = "\n".join(README.splitlines()[:36])
    assert "pip install -e . && kmha compare\n" in first_screen
    assert "pip install -e '.[test]' && pytest\n" in first_screen
    for door in (
        "kmha/course/README.md",
        "kmha/layers/README.md",
        "kmha/course/README.md#grade-a-class",
        "kmha/README.md",
    ):
        assert f"({door})" in first_screen


def test_the_front_page_is_short():
    assert len(README.splitlines()) <= 210


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)):
        if link.startswith("https://"):  # pages of others
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings], link


def test_every_difference_is_listed():
    table = _section("kmha/layers/README.md", "Where kmha differs").split("\n\n")[1]
    assert len(table.strip().splitlines()) == 2 + 13


def test_the_conversion_prints_what_it_says(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    section = _section("kmha/interchange/README.md", "Files and arrays")
    [command] = [line.removeprefix("kmha ") for line in "".join(_fenced(section, "sh")).splitlines()]
    shapes = {
        "in_proj_weight": (1536, 512),
        "in_proj_bias": (1536,),
        "out_proj.weight": (512, 512),
        "out_proj.bias": (512,),
    }
    rng = np.random.default_rng(0)
    write_file("attention.safetensors", {name: rng.random(shape, "float32") for name, shape in shapes.items()})
    _assert_prints(CliRunner().invoke(main, command.split()).output, _fenced(section, "text")[0])
    assert read_file("attention.weights.h5")["key/kernel"].shape == (8, 512, 64)


@pytest.mark.parametrize(
    ("page", "heading"), [("README.md", "What is wrong with my layer?"), ("kmha/verify/README.md", "Diagnose")]
)
def test_the_diagnosis_prints_what_it_says(page, heading, tmp_path, monkeypatch):
    section = _section(page, heading)
    (tmp_path / "my_attention.py").write_text(_fenced(section, "python")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "my_attention", raising=False)
    result = CliRunner().invoke(main, ["diagnose", "my_attention:attention"])
    assert result.exit_code == 1
    _assert_prints(result.output, _fenced(section, "text")[0])


@pytest.mark.parametrize("page", ["README.md", "kmha/course/README.md"])
def test_the_first_check_prints_what_it_says(page, tmp_path, monkeypatch):
    section = _section(page, "Learn attention by writing it")
    [answer] = re.findall(r"end `cross_kv` with\s`(return .*?)`", section)
    [command] = re.findall(r"`kmha (course check \S+ --seed \d+)`", section)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["course", "start"]).exit_code == 0
    [path] = (tmp_path / "kmha-course").glob("a1_*/cross_kv.py")
    path.write_text(path.read_text().split("    # YOUR CODE HERE")[0] + f"    {answer}\n")
    monkeypatch.chdir(tmp_path / "kmha-course")
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 1
    _assert_prints(result.output, _fenced(section, "text")[0])


@pytest.mark.tensorflow
def test_the_explanation_prints_what_it_says():
    section = _section("kmha/layers/README.md", "How attention is computed")
    scope = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(_fenced(section, "python")[0], scope)  # noqa: S102 - our own README
    _assert_prints(str(scope["explanation"]), _fenced(section, "text")[0])


@pytest.mark.parametrize(
    ("number", "pattern"),
    [
        (len(BANK), r"It knows (\d+) mistakes"),
        (len(BANK), r"named, of (\d+) in the bank"),
        (len(WAYS), r"right layers written in (\d+) ways"),
        (len(list(items())), r"a folder with (\d+) exercises"),
        (sum(len(item.spec.wrong) for item in items()), r"answer \((\d+) of them\)"),
    ],
)
def test_counts(number, pattern):
    found = [int(n) for text in PAGES.values() for n in re.findall(pattern.replace(" ", r"\s+"), text)]
    assert found
    assert set(found) == {number}


def _assert_prints(output, block):
    """Assert that `output` is what the block shows; a line "…" in the block stands for any lines."""
    lines, position = _without_rounding(output), 0
    parts = [[]]
    for line in _without_rounding(block):
        parts.append([]) if line == "…" else parts[-1].append(line)
    if len(parts) == 1:
        assert lines == parts[0]
    for part in parts:
        starts = [n for n in range(position, len(lines) - len(part) + 1) if lines[n : n + len(part)] == part]
        assert starts, "\n".join([*part, "-- is not in --", *lines[position:]])
        position = starts[0] + len(part)


def _without_rounding(text):
    """Return the lines without the digits of rounding errors, which differ between processors."""
    rounding = r" +(0(?= │)|\d(\.\d)?e-1\d\b)"
    return [re.sub(rounding, " rounding", line.rstrip()) for line in text.strip().splitlines()]
