import dataclasses
import json

import numpy as np
import pytest

from kmha.course.exercises.exercise import Check
from kmha.course.judging import rendering
from kmha.course.judging.marking import Grade, NamedMistake, Outcome, SmallestCase

CHECKS = [Check("values", says, points, lambda rng: {}) for says, points in (("the <values>", 4), ("the edge", 2))]
RIGHT = Grade("a1.f", tuple(Outcome(check, check.points, None) for check in CHECKS))
WRONG = Grade(
    "a1.f",
    (Outcome(CHECKS[0], 0, "1 of 6 elements differ & more."), Outcome(CHECKS[1], 2, None)),
    mistake=NamedMistake("swapped", "<b>T</b> and S are swapped.", "a thread"),
    printed="<script>alert(1)</script>\n",
    case=SmallestCase({"query": np.array([[1.0, 2.5]]), "heads": 2}, (np.array([3, 4]), "<i>")),
)
BROKEN = Grade(
    "a1.f",
    tuple(Outcome(check, 0, "not reached") for check in CHECKS),
    error={"kind": "SyntaxError", "says": "invalid <syntax>", "line": 3, "text": "def f(:"},
)


def test_a_pass_in_words():
    assert rendering.text("The title", RIGHT, 7) == (
        "a1.f, The title: 6 of 6 points\n\n  ok  4 of 4  the <values>\n  ok  2 of 2  the edge\n\n(seed 7)"
    )


def test_a_failure_in_words():
    said = rendering.text("The title", WRONG, 7)
    assert "  --  0 of 4  the <values>: 1 of 6 elements differ & more.\n  ok  2 of 2  the edge\n" in said
    assert "The mistake:\n  <b>T</b> and S are swapped.\n" in said
    assert "The smallest case that shows it:\n  query (1, 2) = [[1.  2.5]]\n  heads = 2\n" in said
    assert "\n  your result[0] (2,) = [3 4]\n  your result[1] = '<i>'\n" in said
    assert "Your code printed:\n  <script>alert(1)</script>\n" in said


def test_an_error_in_words():
    said = rendering.text("The title", BROKEN, 7)
    assert "Your code could not be checked:\n  SyntaxError: invalid <syntax> (line 3: def f(:)\n" in said
    assert "not reached" not in said


def test_everything_is_escaped():
    """Nothing in an answer can become HTML."""
    for grade in (WRONG, BROKEN):
        page = rendering.page("<u>title</u>", grade, 7)
        for tag in ("<script>", "<b>T</b>", "<i>", "<u>", "<syntax>", "<values>"):
            assert tag not in page
    page = rendering.page("<u>title</u>", WRONG, 7)
    for text in ("&lt;script&gt;", "&lt;b&gt;T", "&#x27;&lt;i&gt;&#x27;", "&amp; more", "seed 7", "✗", "✓"):
        assert text in page


def test_as_json():
    found = json.loads(json.dumps(rendering.as_dict(WRONG)))
    assert (found["exercise"], found["points"], found["possible"], found["passed"]) == ("a1.f", 2, 6, False)
    assert [check["wrong"] for check in found["checks"]] == ["1 of 6 elements differ & more.", None]
    assert found["mistake"] == {"id": "swapped", "says": "<b>T</b> and S are swapped.", "source": "a thread"}
    assert found["case"] == {"inputs": {"query": [[1.0, 2.5]], "heads": 2}, "result": [[3, 4], "<i>"], "differs": None}
    assert json.loads(json.dumps(rendering.as_dict(BROKEN)))["error"]["line"] == 3
    assert rendering.as_dict(RIGHT)["case"] is None


def test_a_number_of_more_than_64_bits_as_json():
    case = dataclasses.replace(WRONG.case, result=np.array([0.5, 2, np.longdouble("1e4000")]))
    found = rendering.as_dict(dataclasses.replace(WRONG, case=case))["case"]["result"]
    assert json.loads(json.dumps(found)) == [0.5, 2.0, float("inf")]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([[1.0, 2.0], [3.0, 4.5]]), "[[1.  2. ]\n [3.  4.5]]"),
        (np.zeros(41), "(41 elements)"),
        (np.float64(0.5), "np.float64(0.5)"),
        (None, "None"),
        ("x" * 2000, "'" + "x" * 959 + "…"),
        (np.array(3), "3"),
        ([[1, 2]], "[[1, 2]]"),
        ([0] * 2_000, "(a list with 2,001 parts)"),
        (([np.zeros(300)] * 3, [np.zeros(0)] * 100), "(a tuple with 1,003 parts)"),  # all of it was written out first
    ],
)
def test_values(value, said):
    assert rendering.value_text(value) == said


def test_long_values_go_below_their_name():
    shown = SmallestCase({"mask": np.eye(2, dtype=int)}, {"scores": [np.ones((1, 1, 2))], "none": []})
    assert rendering.case_text(shown).splitlines() == [
        "mask (2, 2) =",
        "    [[1 0]",
        "     [0 1]]",
        "your result['scores'][0] (1, 1, 2) = [[[1. 1.]]]",
        "your result['none'] = []",
    ]


def test_a_hostile_case_stays_short():
    """Names of parts that repeat a long key took 160 GB."""
    result = {"K" * (1 << 20): {str(number): 0 for number in range(20_000)}}
    lines = rendering.case_text(SmallestCase({"x": 1}, result)).splitlines()
    assert len(lines) == 1 + rendering.ENTRIES + 1
    assert max(map(len, lines)) < 200
    assert lines[-1] == "…"


def test_where_it_differs():
    shown = SmallestCase({"heads": 2}, np.eye(2), ("result[0]", np.array([[True, False], [True, True]])))
    assert rendering.case_text(shown).splitlines()[-3:] == ["where result[0] differs (■):", "    ■ ·", "    ■ ■"]
    grade = dataclasses.replace(WRONG, case=shown)
    assert rendering.as_dict(grade)["case"]["differs"] == {"in": "result[0]", "at": [[True, False], [True, True]]}


def test_repeated_problems_are_not_repeated():
    outcomes = tuple(Outcome(each.check, 0, "it raises") for each in WRONG.outcomes)
    grade = dataclasses.replace(WRONG, outcomes=outcomes)
    assert [says for _, says in rendering.outcomes(grade)] == [
        "it raises",
        *["the same problem as above"] * (len(outcomes) - 1),
    ]


def test_check_that_a_wrong_shape_prevents():
    checks = [Check(layer, layer, 1, lambda rng: {}) for layer in ("signature", "shape", "values")]
    problems = None, "it has the shape (2,).", "it has the shape (2,)."
    outcomes = tuple(Outcome(check, 0, problem) for check, problem in zip(checks, problems, strict=True))
    grade = dataclasses.replace(WRONG, outcomes=outcomes, mistake=None, case=None, printed="")
    assert [says for _, says in rendering.outcomes(grade)][1:] == [
        "it has the shape (2,).",
        "not checked, because of the problem above",
    ]
    assert [rendering.sign(each) for each in outcomes] == ["–", "✗", "✗"]
    assert rendering.sign(RIGHT.outcomes[0]) == "✓"
    earns = "signature (earns its point once a result is right)"
    assert f"\n      0 of 1  {earns}\n  --  0 of 1  shape: " in rendering.text("The title", grade, 7)
    assert f'<tr><td>–</td><td>0 of 1</td><td style="text-align:left">{earns}</td></tr>' in rendering.page(
        "The title", grade, 7
    )
