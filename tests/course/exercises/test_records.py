import numpy as np
import pytest

from kmha.course.exercises import records

RECORD = {
    "title": "Twice as much",
    "question": "?",
    "difficulty": 1,
    "minutes": 2,
    "seconds": 10.0,
    "uses": ("numpy",),
    "needs": ("other",),
    "forbids": (),
    "all_points": 5,
    "text": "# Twice as much",
    "starter": "def twice(array):\n    return array\n",
    "hints": ["one", "two", "three"],
    "checks": [
        {
            "layer": "values",
            "says": "?",
            "points": 5,
            "times": 1,
            "tolerance": 1e-5,
            "judged": False,
            "of": [0],
            "small": [{"inputs": {"array": np.ones(1)}, "expected": np.ones(1)}],
        }
    ],
    "asked": [{"ask": None, "inputs": {"array": np.ones(2)}}],
    "expected": [np.ones(2)],
    "mistakes": {"name": "0aF4"},
}


def test_record_that_can_be_used():
    assert records.problem(RECORD) is None


@pytest.mark.parametrize("name", RECORD)
def test_every_field_is_needed(name):
    assert records.problem({key: value for key, value in RECORD.items() if key != name}) == f"it has no {name}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", ""),
        ("title", "two\nlines"),
        ("difficulty", 4),
        ("difficulty", True),
        ("minutes", 10**400),
        ("seconds", float("nan")),
        ("seconds", 1e9),
        ("uses", ("antigravity",)),
        ("uses", (np.ones(2),)),
        ("uses", "numpy"),
        ("needs", ("../../startup",)),
        ("forbids", (3,)),
        ("all_points", -1),
        ("text", ""),
        ("starter", "def twice(:"),
        ("hints", []),
        ("hints", 7),
        ("checks", {}),
        ("asked", [{"ask": 3, "inputs": {}}]),
        ("asked", [{"ask": None, "inputs": []}]),
        ("expected", None),
        ("mistakes", {"name": "0aF"}),
        ("mistakes", {"name": "zz"}),
    ],
)
def test_fields_that_cannot_be_used(name, value):
    assert records.problem({**RECORD, name: value}) == f"its {name} cannot be used"


@pytest.mark.parametrize(
    ("name", "value"),
    [("layer", "luck"), ("layer", np.ones((0, 2))), ("points", 0), ("tolerance", -1.0), ("of", []), ("small", [{}])],
)
def test_checks_that_cannot_be_used(name, value):
    record = {**RECORD, "checks": [{**RECORD["checks"][0], name: value}]}
    assert records.problem(record) == "its checks cannot be used"


def test_calls_that_do_not_exist():
    record = {**RECORD, "checks": [{**RECORD["checks"][0], "of": [1]}]}
    assert records.problem(record) == "a check is of a call that does not exist"
    assert records.problem({**RECORD, "expected": []}) == "it has 0 expected results for 1 calls"
    assert records.problem([]) == "it is not a dictionary"
