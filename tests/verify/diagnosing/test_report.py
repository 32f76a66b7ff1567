import json

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import report


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
    texts = {row["call"]: row["distances"] for row in report.table_rows(strict)}
    assert all(len(each) == 3 for each in texts.values())
    assert float(texts["causal"][0]) == pytest.approx(strict.wrong["causal"], rel=0.1)


def test_nan_is_infinitely_far(found):
    rows = {row["call"]: row for row in report.distances(found("nan_rows"))}
    assert rows["mask with fully masked rows"]["from_right"] is None
    texts = {row["call"]: row["distances"] for row in report.table_rows(found("nan_rows"))}
    assert texts["mask with fully masked rows"][0] == "∞"


def test_difference_map_of_scores(found):
    where = report.difference_map(found("mask_after"))
    assert where.columns == "key positions"
    assert where.title.startswith("mask: difference of the scores in item")
    assert where.values.ndim == 2
    assert where.values.max() > 0


def test_difference_map_of_the_output(found):
    strict = found("strict")
    where = report.difference_map(strict)
    assert where.columns == "features"
    one = next(one for one in strict.results if where.title.startswith(f"{one.trial.name}: "))
    item = int(where.title.split("item ")[1].split()[0])
    difference = np.abs(one.answer.output - one.right["output"])[item]
    assert any(np.array_equal(where.values, head) for head in difference)


@pytest.mark.parametrize("name", ["core", "nothing", "trained"])
def test_no_difference_map(found, name):
    """The candidate is right, or cannot be run, or is only wrong in training."""
    assert report.difference_map(found(name)) is None


def test_nan_has_no_colour(found):
    where = report.difference_map(found("nan_rows"))
    assert where is None or np.isfinite(where.values).all()


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
        ("flattened", {}, "It also runs with inputs (B, H, P, O), and is wrong there"),
        ("strict", {}, "Making this mistake in the reference reproduces your numbers to within"),
        ("pair_of_core", {}, "If True (or 1) in your mask is meant to hide, say so with mask='hides' or --mask hides."),
        ("kernel_for_two", {}, "For this candidate, these mistakes would give the same numbers: "),
        ("cubed", {}, "First wrong step: the logits"),
        (
            "raises_with_masks",
            {},
            "It raises an error (ValueError: no masks today) in these calls: mask; mask, equal lengths; ",
        ),
        ("causal_unasked", {}, "It is causal without being asked. kmha assumes that this is intended."),
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
    assert len(data["calls"]) == len(one.results)
    assert (data["first_step"] is not None) == (one.verdict == "unknown")
