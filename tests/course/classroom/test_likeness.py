import pytest

from kmha.course.classroom import likeness
from kmha.course.classroom.likeness import alike, fingerprint, normalized

ONE = '''import numpy as np

def scores(query, key, mask=None):
    """A docstring."""
    dots = query @ key.T / np.sqrt(query.shape[-1])  # scaled
    if mask is not None:
        dots = dots + (1 - mask) * -1e9
    exponentials = np.exp(dots - dots.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
'''
CHANGES = [
    ('    """A docstring."""\n', ""),
    ("  # scaled", ""),
    ("exponentials", "e"),
    ("query", "q"),
    ("mask=None", "mask: int | None = None"),
    ("mask=None):", "mask=None) -> float:"),
    ("scores(", "scores(  "),
    ("(1 - mask)", "((1 - mask))"),
]


def test_a_long_comment_hides_nothing():
    assert normalized(f"{ONE}# {'x' * 70_000}\n") == normalized(ONE)


def test_number_with_too_many_digits():
    assert normalized(f"x = 0x{'f' * 5_000}\n") == ""


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_identical_but_for_names_and_comments(old, new):
    assert normalized(ONE.replace(old, new)) == normalized(ONE)


@pytest.mark.parametrize(
    ("old", "new"), [("-1e9", "-1e8"), (".max(", ".min("), ("dots + ", "dots - "), ("np.exp", "np.log")]
)
def test_different(old, new):
    assert normalized(ONE.replace(old, new)) != normalized(ONE)


@pytest.mark.parametrize(
    "code", ["def f(:", "x" * 300_000, "-" * 5_000 + "1", "(" * 150 + ")" * 150, "\0", "x = " + "1+" * 9_000 + "1"]
)
def test_hostile_code(code):
    assert isinstance(normalized(code), str)


def test_short_answers_are_not_compared(doubling):
    item = doubling.items[0]
    assert fingerprint(item.master.solution, item) == ""
    assert fingerprint(ONE, item) != ""
    assert fingerprint("def twice(:", item) == ""


def test_groups(doubling):
    pairs = [("anna", "x"), ("bob", "y"), ("cleo", "x"), ("dora", ""), ("emil", ""), ("finn", "z")]
    assert alike("a1.twice", pairs, "y") == [
        ("a1.twice", ("anna", "cleo"), False),
        ("a1.twice", ("bob",), True),
    ]
    assert likeness.of_solution(doubling.items[0]) == ""
