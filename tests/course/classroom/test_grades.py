import copy
import csv
import io
import json

import pytest

from kmha.course.classroom import grades
from kmha.course.judging import rendering
from kmha.course.judging.marking import Grade, NamedMistake, Outcome, refused


def _graded(item, wrong=(), mistake=None, error=None, state=None):
    """Return a graded answer; `wrong` holds the indices of the checks that fail."""
    checks = item.spec.checks
    outcomes = tuple(
        Outcome(check, 0 if number in wrong else check.points, "it differs." if number in wrong else None)
        for number, check in enumerate(checks)
    )
    named = NamedMistake(mistake, f"{mistake} is what it does.") if mistake else None
    grade = refused(item.id, item.spec, error) if error else Grade(item.id, outcomes, named)
    exercise = rendering.as_dict(grade)
    for check, each in zip(exercise["checks"], checks, strict=True):
        check["visible"] = each.visible
    more = {"title": item.spec.title, "difficulty": item.spec.difficulty, "failed": False, "code": "code", "case": ""}
    state = state or ("does not run" if error else "wrong" if wrong else "right")
    return {**exercise, **more, "state": state, "fingerprint": "x" if wrong == (0,) else "", "like_solution": False}


@pytest.fixture(scope="module")
def records(doubling):
    twice, again = doubling.items

    def record(one, other, notes=()):
        return {"notes": list(notes), "exercises": {"a1.twice": one, "a1.again": other}}

    nothing = _graded(again, error="it was not handed in.", state="not begun")
    return {
        "=anna": record(_graded(twice), _graded(again)),
        "bob": record(_graded(twice, (2, 5), "tripled"), nothing, ["x.py is left out: it is a link."]),
        "cleo, the 2nd": record(_graded(twice, (5,), "tripled"), _graded(again, (0,))),
        "dora": record(_graded(twice, (3,), "changed"), _graded(again, error="SyntaxError")),
        "emil": record(_graded(twice, (1, 2)), _graded(again, (0,))),
    }


def test_student_points(records, doubling):
    found = grades.student_points(records, [doubling])
    assert [(each.id, each.of_assignments, each.total) for each in found] == [
        ("=anna", {"a1": 37}, 37),
        ("bob", {"a1": 12}, 12),
        ("cleo, the 2nd", {"a1": 16}, 16),
        ("dora", {"a1": 31}, 31),
        ("emil", {"a1": 26}, 26),
    ]
    assert found[1].notes == ("x.py is left out: it is a link.",)
    assert grades.possible([doubling]) == {"a1": 37}


def test_csv_has_no_formulas(records, doubling):
    text = grades.as_csv(grades.student_points(records, [doubling]), [doubling])
    lines = list(csv.reader(io.StringIO(text)))
    assert lines[0] == ["student", "a1", "total", "possible", "a1.twice", "a1.again", "notes"]
    assert lines[1] == ["'=anna", "37", "37", "37", "32", "5", ""]
    assert lines[2][-1] == "x.py is left out: it is a link."
    assert lines[3] == ["cleo, the 2nd", "16", "16", "37", "16", "0", ""]


def test_json_omits_the_answers(records, doubling):
    found = json.loads(json.dumps(grades.as_json(records, [doubling], 9, {"notes.odt": "a reason"})))
    assert found["ignored"] == {"notes.odt": "a reason"}
    assert (found["seed"], found["possible"]) == (9, {"a1": 37})
    assert found["students"][1]["exercises"]["a1.twice"]["mistake"]["id"] == "tripled"
    assert "code" not in found["students"][1]["exercises"]["a1.twice"]
    assert found["common"][0]["id"] == "a1.twice"


def test_one_kind_of_mistake_said_in_two_ways(records):
    """A kind of mistake is said with the names and shapes of each answer, and counted as one."""
    changed = copy.deepcopy(records)
    changed["cleo, the 2nd"]["exercises"]["a1.twice"]["mistake"]["says"] = "tripled is what y does."
    assert grades.summaries(changed)[0].mistakes == grades.summaries(records)[0].mistakes


def test_the_text_of_an_answer_is_not_shown_to_the_class(records):
    """One student's text stood on the class's page as the common mistake."""
    changed = copy.deepcopy(records)
    of = {name: record["exercises"]["a1.twice"]["mistake"] for name, record in changed.items()}
    of["bob"]["says"] = "tripled: read evil.example"
    of["emil"] = changed["emil"]["exercises"]["a1.twice"]["mistake"] = {**of["cleo, the 2nd"]}
    of["dora"] |= {"id": "error-name", "says": "Nothing is called `evil` here."}
    twice = grades.summaries(changed)[0]
    assert twice.mistakes[0] == ("tripled is what it does.", 3)
    assert twice.mistakes[1][0].startswith("Nothing is called `…` here. Check the spelling")


def test_summaries(records):
    twice, again = grades.summaries(records)
    assert (twice.begun, twice.passed) == (5, 0.2)
    assert twice.mistakes == (("tripled is what it does.", 2), ("changed is what it does.", 1))
    shape, values = (
        "the result has the right structure, shapes and dtypes",
        "every element of the result is right",
    )
    assert twice.checks == ((shape, 1), (values, 1))
    assert again.states == {"not begun": 1, "out of time": 0, "does not run": 1, "wrong": 2, "right": 1}
    assert (again.difficulty, again.passed, again.mistakes, again.checks) == (2, 0.25, (), ((values, 2),))
    assert (twice.alike, again.alike) == ((), (("a1.again", ("cleo, the 2nd", "emil"), False),))
    assert grades.summaries({}) == []


def test_gradescope(records):
    found = grades.gradescope(records["bob"])
    assert found["score"] == 12
    assert found["output"] == "x.py is left out: it is a link."
    assert {frozenset(test) for test in found["tests"]} == {
        frozenset({"name", "score", "max_score", "output", "visibility"})
    }
    values, hidden, again = found["tests"][2], found["tests"][5], found["tests"][6]
    assert values == {
        "name": "a1.twice: every element of the result is right",
        "score": 0,
        "max_score": 4,
        "output": "it differs.\ntripled is what it does.",
        "visibility": "visible",
    }
    assert (hidden["visibility"], hidden["output"]) == ("after_published", "it differs.")
    assert (again["score"], again["output"]) == (0, "it was not handed in.")
    assert sum(test["max_score"] for test in found["tests"]) == 37


@pytest.mark.parametrize(
    "name",
    [
        "=1",
        "\uff1d1",
        " =1",
        "\u3000\uff0b1",
        "\uff0d1",
        "\u22121",
        "\uff201",
        "\t1",
        "\r1",
        "\ufe661",
        " " * 110 + "=1",
    ],
)
def test_no_spreadsheet_reads_a_formula(name):
    assert grades._cell(name) == f"'{name}"


def test_no_text_becomes_two_cells(records, doubling):
    """Where the comma is in numbers, spreadsheets divide a line at semicolons."""
    named = {"a;=1+1;b": next(iter(records.values()))}
    text = grades.as_csv(grades.student_points(named, [doubling]), [doubling])
    assert text.splitlines()[1].startswith('"a;=1+1;b",37,')


@pytest.mark.parametrize("name", ["anna", "1=1", "", "Ö-=", "(=1)"])
def test_other_names_stay(name):
    assert grades._cell(name) == name
