import pytest

from kmha.course.classroom.edits import edits, with_full_points

CODE = """
def shape(array, left=False):
    head, *tail = array.shape[1:]
    if left is not None and (not left or tail):
        head += 1.5
    kept = sorted(tail, reverse=True)
    return head if head < 3 else kept.index(0, head)
"""


@pytest.mark.parametrize(
    "line",
    [
        "def shape(array, left=True):",
        "head, *tail = array.shape",
        "head, *tail = array.shape[:]",
        "head, *tail = array.shape[2:]",
        "head, *tail = array.shape[0:]",
        "pass",
        "if True:",
        "if False:",
        "if left is None and (not left or tail):",
        "if left is not None:",
        "if not left or tail:",
        "if left is not None and (not left):",
        "if left is not None and tail:",
        "if left is not None and (left or tail):",
        "head += 3.0",
        "kept = sorted(tail)",
        "kept = tail",
        "kept = sorted(FROZEN.setdefault(0, tail), reverse=True)",
        "head if head <= 3 else kept.index(0, head)",
        "head if head < 4 else kept.index(0, head)",
        "head if head < 3 else kept.index(0)",
        "head if head < 3 else kept.index(head, 0)",
        "head if head < 3 else kept",
        "head",
        "kept.index(0, head)",
    ],
)
def test_a_place_is_changed_in_each_way(line):
    assert line in [edit.new for edit in edits(CODE)]


def test_an_edit_says_where_it_is():
    found = {edit.new: edit for edit in edits(CODE)}["kept = sorted(tail)"]
    assert (found.line, found.old) == (6, "kept = sorted(tail, reverse=True)")
    assert "reverse" not in found.code
    assert "head += 1.5" in found.code


def test_what_the_starter_has_is_not_changed():
    starter = CODE.replace("    kept = sorted(tail, reverse=True)\n", "    raise NotImplementedError\n")
    assert {edit.line for edit in edits(CODE, starter)} == {6}


def test_what_errors_say_is_not_changed():
    assert [*edits("def f(x):\n    raise ValueError(f'{x + 1}', 2)\n")] == []


AXES = ("return factor_of_the_solution * np.asarray(array)", "return np.ndim(array) * np.asarray(array)")
OTHER = ('"array": rng.normal(size=(rows, columns))', '"array": rng.normal(size=(rows,) * int(rng.integers(1, 4)))')


@pytest.mark.parametrize("varied", [False, True])
def test_what_no_draw_varies_gets_full_points(changed, sandbox, varied):
    item = changed([AXES], [OTHER] if varied else [])
    kept = {edit.new for edit in with_full_points(item, sandbox, 401, 100)}
    assert ("FROZEN.setdefault(0, np.ndim(array)) * np.asarray(array)" in kept) is not varied
    assert "array" not in kept  # an array that is not doubled


def test_no_more_are_tried_than_asked_for(changed, sandbox, monkeypatch):
    tried = []
    grade = type("Passed", (), {"passed": True})
    monkeypatch.setattr("kmha.course.classroom.edits.judge", lambda item, code, *_, **__: tried.append(code) or grade)
    assert len([*with_full_points(changed(), sandbox, 401, 3)]) == len(tried) == 3
    assert [*with_full_points(changed(), sandbox, 401, 0)] == []
