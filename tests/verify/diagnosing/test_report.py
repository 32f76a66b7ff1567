import dataclasses
import json
import os

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import rendering, report
from kmha.verify.diagnosing.difference import difference_map
from kmha.verify.diagnosing.verdicts import SourceLine
from kmha.verify.mistakes import BANK


@pytest.fixture
def found(candidate):
    """Return a function that diagnoses one of the functions by name."""
    return lambda name, **options: diagnose(candidate("arrays", name), **options)


def test_distances(found):
    strict = found("strict")
    rows = {row["call"]: row for row in report.distances(strict)}
    assert list(rows) == [one.trial.name for one in strict.results]
    assert rows["causal"]["from_right"] > 0.1
    assert rows["causal"]["from_found"] < 1e-6
    assert rows["self-attention"]["from_right"] < 1e-6
    assert rows["causal"]["raised"] is None
    assert max(row["from_nearest"] for row in rows.values()) == pytest.approx(strict.nearest.distance)


def test_distances_as_texts(found):
    strict = found("strict")
    titles, *rows = rendering.calls_table(report.to_dict(strict))
    assert titles[:2] == ["call", "from right"]
    assert all(len(row) == 4 for row in rows)
    texts = {row[0]: row[1:] for row in rows}
    assert float(texts["causal"][0]) == pytest.approx(strict.wrong["causal"], rel=0.1)


def test_an_infinite_distance_is_shown(found):
    data = report.to_dict(found("strict"))
    data["calls"][0]["from_right"] = None
    assert rendering.calls_table(data)[1][1] == "∞"


def test_difference_map_of_scores(found):
    where = difference_map(found("mask_after"))
    assert where.columns == "key positions"
    assert where.title.startswith("mask: difference of the scores in item")
    assert where.values.ndim == 2
    assert where.values.max() > 0
    assert max(where.values.shape) <= 24


def test_difference_map_of_the_output(found):
    strict = found("strict")
    where = difference_map(strict)
    assert where.columns == "features"
    one = next(one for one in strict.results if where.title.startswith(f"{one.trial.name}: "))
    item = int(where.title.split("item ")[1].split()[0])
    difference = np.abs(one.answer.output - one.right["output"])[item]
    assert any(np.array_equal(where.values, head) for head in difference)


@pytest.mark.parametrize("name", ["core", "nothing", "trained"])
def test_no_difference_map(found, name):
    """The candidate is right, or cannot be run, or is only wrong in training."""
    assert difference_map(found(name)) is None


def test_nan_has_no_colour_and_rounding_is_not_drawn(found):
    assert difference_map(found("nan_rows")) is None
    assert difference_map(found("overflowing")) is None


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("core", {}, "kmha called it with inputs (B, H, P, O), a mask (B, 1, T, S) in which True attends, in float64."),
        (
            "of_three_axes",
            {},
            "kmha called it with inputs (B, P, O), a mask (B, T, S) in which True attends, in float64.",
        ),
        ("of_one_item", {}, "kmha called it with inputs (P, O), a mask (T, S) in which True attends, in float64."),
        (
            "added",
            {"mask": "adds"},
            "kmha called it with inputs (B, H, P, O), a mask (B, 1, T, S) in which 0 attends and -1e9",
        ),
        (
            "with_matrices",
            {},
            "kmha called it with inputs (B, P, I), a mask (B, 1, T, S) in which True attends, in float64.",
        ),
        ("flattened", {}, "It also runs with inputs (B, H, P, O), and is wrong with those."),
        (
            "pair_of_core",
            {},
            "kmha called it with inputs (B, H, P, O), a mask (B, 1, T, S) in which True hides, in float64.",
        ),
        ("kernel_for_two", {}, "For this candidate, these mistakes would give the same numbers: "),
        ("cubed", {}, "First step that differs: the logits"),
        (
            "raises_with_masks",
            {},
            "It raises an error (ValueError: no masks today) in these calls: mask; mask, equal lengths; ",
        ),
        ("causal_unasked", {}, "It is causal without being asked: taken as intended."),
    ],
)
def test_notes(found, name, options, sentence):
    notes = report.notes(found(name, **options))
    assert any(sentence in line for line in notes), notes


@pytest.mark.tensorflow
def test_note_on_float16(candidate):
    half = diagnose(candidate("keras_layers", "Half"))
    assert half.right
    [line] = [line for line in report.notes(half) if "float16" in line]
    assert line.startswith("In float16 it is wrong, with half-logits-overflow: ")
    assert [one["id"] for one in report.to_dict(half)["in_float16"]] == ["half-logits-overflow"]


def test_the_sizes_of_a_core_and_of_a_layer(found):
    core, three, layer = found("core"), found("of_three_axes"), found("with_matrices")
    assert report.sizes_text(core).split(", ")[-2:] == [f"H={core.sizes.heads}", f"O={core.sizes.size}"]
    assert "H=" not in report.sizes_text(three)
    assert report.sizes_text(layer) == str(layer.sizes)
    assert report.sizes_text(found("of_one_item")).startswith("B=1, ")


@pytest.mark.parametrize("name", ["core", "strict", "nan_rows", "cubed", "fails", "pair_of_core", "raises_with_masks"])
def test_json(found, name):
    one = found(name)
    data = json.loads(json.dumps(report.to_dict(one), allow_nan=False))
    assert data["verdict"] == one.verdict
    assert tuple(mistake["id"] for mistake in data["mistakes"]) == one.ids
    assert all(mistake["says"] and mistake["look"] and mistake["source"] for mistake in data["mistakes"])
    assert data["code"] == one.code()
    assert data["case"] == one.short_code()
    assert len(data["calls"]) == len(one.results)
    assert (data["first_step"] is not None) == (one.verdict == "unknown")


def test_the_first_lines_of_a_known_mistake(found):
    strict = dataclasses.replace(found("strict"), line=None)
    first, second, third = str(strict).splitlines()[:3]
    calls = len(found("strict").results)
    assert first.startswith(f"strict is wrong: this mistake gives the same numbers in all {calls} calls, to within ")
    assert second.startswith("causal-")
    assert third.startswith("Look at the line ")


def test_the_line_to_look_at_is_quoted(found):
    line = SourceLine(__file__, 7, "logits = q @ k")
    pointed = dataclasses.replace(found("strict"), line=line)
    assert f"{os.path.relpath(__file__)}:7: logits = q @ k" in str(pointed).splitlines()
    assert "Look at the line" not in str(pointed)


def test_a_right_candidate_says_what_was_tested(found):
    lines = str(found("core")).splitlines()
    assert lines[0].startswith("core is right: its numbers are those of the reference in all ")
    assert lines[1].startswith("Tested: self-attention, cross-attention, ")
    assert "masks" in lines[1].removeprefix("Tested: ").split(", ")
    assert lines[-1] == "Not tested: dropout."


def test_a_right_candidate_without_masks_says_so(found):
    data = report.to_dict(found("of_methods"))
    assert {"says": "masks (it takes no mask)", "important": True} in data["untested"]
    [line] = [line for line in rendering.lines(data) if line.text.startswith("Not tested: masks")]
    assert line.style == "yellow"
    assert next(rendering.lines(data)).lead_style == "bold yellow"


def test_an_unjudged_candidate_says_what_would_help(found):
    unjudged = dataclasses.replace(found("core"), verdict="unjudged", advice=("Say --role query=entree.",))
    lines = str(unjudged).splitlines()
    assert lines[0].startswith("core could not be judged: ")
    assert "Say --role query=entree." in lines
    assert not any(line.startswith(("Tested", "The smallest case")) for line in lines)


def test_an_unknown_mistake_names_its_first_step(found):
    cubed = found("cubed")
    text = " ".join(str(cubed).split())
    differing = f"{len(cubed.wrong)} of {len(cubed.results)} calls give other numbers"
    assert text.startswith(
        f"cubed differs from the reference: {differing}, and no known mistake explains them. It is another design, "
        "or a mistake that kmha does not know. First step that differs: the logits"
    )


def test_an_activation_that_is_missing_is_no_choice(found):
    strict = found("strict")
    convention = dataclasses.replace(strict.convention, choices=("activation-silu",))
    chosen = dataclasses.replace(strict, convention=convention)
    match = dataclasses.replace(strict.matches[0], mistakes=(BANK["feed-forward-activation-missing"],))
    assert "SiLU: taken as intended." in report.remarks(chosen)
    assert "SiLU: taken as intended." not in report.remarks(dataclasses.replace(chosen, matches=(match,)))


def test_a_notebook_shows_the_report(found):
    strict = found("strict")
    assert strict._repr_mimebundle_() == {"text/plain": str(strict)}
    assert repr(strict) == f"<Diagnosis of strict: known {strict.ids[0]}>"


def test_the_text_of_a_candidate_cannot_change_the_terminal():
    def attention(q, k, v):
        raise ValueError("\x1b]0;title\x07 [red]markup[/] \u202eback \x9b2J")

    attention.__qualname__ = "\x1b[31mname"
    data = report.to_dict(diagnose(attention))
    printed = rendering.text(data)
    assert not any(character in printed for character in "\x1b\x07\x9b\u202e")
    assert "\\x1b]0;title\\x07 [red]markup[/] \\u202eback" in printed
    assert data["candidate"] == "\\x1b[31mname"


def test_a_picture_of_zeros():
    assert [line.text for line in rendering.picture("mask", [[0, 0.0]], "keys")][3] == f"0 {rendering.SHADES[0]} ·"


def test_a_picture_is_drawn_with_its_scale():
    drawn = [line.text for line in rendering.picture("mask: difference", [[0.0, 0.5], [1.0, 0.25]], "features")]
    assert drawn[0] == "Mask: difference:"
    assert drawn[2:5] == ["  0 1", "0 · ▒", "1 █ ░"]
    assert drawn[-1].endswith("columns: features  0 ·░▒▓█ 1")
