import itertools
import tracemalloc

import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.exercises.content import RELEASED_SUFFIX, Item, ReleasedItem, UnknownExerciseError
from kmha.course.judging import released
from kmha.course.judging.pipeline import judge
from kmha.course.judging.released import NO_CHECKS, UNDECIDED
from kmha.course.judging.running import Runner, needed_solutions
from kmha.sandbox.encoding import encode
from kmha.sandbox.sandbox import CallResult, Pool


@pytest.fixture(scope="module")
def folder(tmp_path_factory, doubling, sandbox):
    found = tmp_path_factory.mktemp("released") / "a1_doubling"
    found.mkdir()
    for item in doubling.items:
        released.write(item, found / f"{item.name}{RELEASED_SUFFIX}", sandbox, 5)
    for name in ("assignment.toml", "README.md"):
        (found / name).write_bytes((doubling.folder / name).read_bytes())
    return found


@pytest.fixture(scope="module")
def items(folder):
    (assignment,) = content.assignments(folder.parent)
    return assignment.items


def _answer(factor, line=""):
    return f"import numpy as np\ndef twice(array):\n    {line or 'pass'}\n    return {factor} * np.asarray(array)\n"


def test_released_exercise_without_what_is_kept_back(items, doubling):
    twice = items[0]
    assert isinstance(twice, ReleasedItem)
    assert (twice.master.text, twice.master.starter) == (
        doubling.items[0].master.text,
        doubling.items[0].master.starter,
    )
    assert twice.master.solution == twice.master.starter
    assert twice.master.hints == doubling.items[0].master.hints
    assert [check.says for check in twice.spec.checks] == [check.says for check in doubling.items[0].spec.checks[:5]]
    assert (twice.spec.points, twice.all_points) == (16, 32)
    assert twice.spec.wrong == ()
    assert items[1].spec.needs == ("twice",)


def test_the_file_holds_no_solution_no_hidden_check_and_no_wrong_answer(folder):
    held = b"".join(path.read_bytes() for path in folder.iterdir())
    for kept_back in (b"factor_of_the_solution", b"hidden", b"thrice", b"The factor is 3", b"only-once", b"it shrinks"):
        assert kept_back not in held


def test_grading_with_the_same_seed_draws_other_inputs(items, doubling, sandbox):
    """A table of the release's results had full marks in grading with the same seed."""
    asked = [call["inputs"] for call in items[0].record["asked"] if call["inputs"]]
    graded = [call.inputs for call in Runner(doubling.items[0], sandbox, 5).plan.calls if call.inputs]
    for one, other in itertools.product(asked, graded):
        assert not np.isin(one["array"], other["array"]).any()


@pytest.mark.parametrize(
    ("code", "points"),
    [(_answer(2), [1, 2, 4, 1, 8]), (_answer(3), [0, 0, 0, 0, 0]), (_answer(2, "array += 0.5; array *= 1"), [0] * 5)],
)
def test_the_points_of_an_answer(items, sandbox, code, points):
    grade = judge(items[0], code, sandbox, seed=9)
    assert [outcome.points for outcome in grade.outcomes] == points
    assert grade.passed is (sum(points) == 16)


def test_the_mistake_is_named_and_the_smallest_case_is_found(items, sandbox):
    grade = judge(items[0], _answer(3), sandbox, seed=9)
    assert (grade.mistake.id, grade.mistake.says, grade.mistake.source) == (
        "thrice-as-much",
        "The factor is 3.",
        "a thread",
    )
    assert grade.case.inputs["array"].size <= 4
    rounded = judge(items[0], _answer(3 + 1e-9), sandbox, seed=9)
    assert rounded.mistake.id == "thrice-as-much"
    assert getattr(judge(items[0], _answer(3.01), sandbox, seed=9).mistake, "id", "") != "thrice-as-much"
    assert judge(items[0], _answer(2), sandbox, seed=9).mistake is None


def test_no_known_mistake_is_sought_for_a_huge_result(items, sandbox):
    """20 MB of truth values took a gigabyte."""
    runner = released.ReleasedRunner(items[0], sandbox)
    results = [CallResult(np.zeros(2_000_000, bool)) for _ in runner.expected()]
    tracemalloc.start()
    try:
        assert runner.recorded_mistake(results, runner.expected(), [1e-6] * len(results)) is None
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_judges_leave_other_results_undecided(items, sandbox):
    assert judge(items[0], _answer(3), sandbox, seed=9).outcomes[4].problem == UNDECIDED


def test_the_learners_other_files_are_beside_it(items, sandbox):
    code = "from twice import twice\ndef again(array):\n    return twice(twice(array))\n"
    assert judge(items[1], code, sandbox, seed=9, files={"twice.py": _answer(2)}).passed
    assert judge(items[1], code, sandbox, seed=9, files={"twice.py": _answer(3)}).points == 0


def test_violation_in_a_released_exercise(items, sandbox):
    grade = judge(items[0], "import scipy\n" + _answer(2), sandbox, seed=9)
    assert not grade.passed
    assert "you import scipy in line 1" in grade.error["says"]


def test_an_exercise_without_visible_checks_is_not_passed(items, sandbox, monkeypatch):
    monkeypatch.setitem(items[1].record, "checks", [])
    monkeypatch.delitem(vars(items[1]), "spec", raising=False)
    grade = judge(items[1], "", sandbox, seed=9)
    assert (grade.passed, grade.error["says"]) == (False, NO_CHECKS)
    monkeypatch.delitem(vars(items[1]), "spec")


@pytest.mark.parametrize("spoilt", [b"", b"{}", b"\x02" + b"\0" * 7 + b"[]"])
def test_malformed_file(tmp_path, spoilt):
    (tmp_path / f"twice{RELEASED_SUFFIX}").write_bytes(spoilt)
    with pytest.raises(UnknownExerciseError, match="Download the course again"):
        _ = ReleasedItem("a1", "twice", tmp_path).spec


def test_a_tampered_file_does_not_control_the_terminal(tmp_path, items):
    record = {**items[0].record, "title": "\x1b[2Jerased", "hints": ["\x1b]0;named\x07"] * 3}
    record["checks"] = [{**check, "says": "\u202ereversed"} for check in record["checks"]]
    (tmp_path / f"twice{RELEASED_SUFFIX}").write_bytes(encode(record))
    found = ReleasedItem("a1", "twice", tmp_path)
    texts = [found.spec.title, *found.master.hints, *[check.says for check in found.spec.checks]]
    assert "\\x1b[2Jerased" in texts
    assert all(text.isprintable() for text in texts)


def _spoilt(items, tmp_path, **changes):
    (tmp_path / f"twice{RELEASED_SUFFIX}").write_bytes(encode({**items[0].record, **changes}))
    return ReleasedItem("a1", "twice", tmp_path)


def test_tampered_results_give_an_error_in_one_line(tmp_path, items, sandbox):
    expected = [10**30 for _ in items[0].record["expected"]]
    with pytest.raises(UnknownExerciseError, match=r"a1\.twice cannot be checked: .*Download the course again"):
        judge(_spoilt(items, tmp_path, expected=expected), _answer(3), sandbox, seed=9)


@pytest.mark.parametrize("sealed", ["00", "7b7d" * 40])
def test_tampered_mistakes_are_not_named(tmp_path, items, sandbox, sealed):
    mistakes = dict.fromkeys(items[0].record["mistakes"], sealed)
    found = judge(_spoilt(items, tmp_path, mistakes=mistakes), _answer(3), sandbox, seed=9).mistake
    assert found.id == "result-scaled"  # a kind of mistake, which needs no record


def test_a_file_of_another_version(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(content, "RELEASED_VERSION", 2)
    with pytest.raises(UnknownExerciseError, match="another version of kmha"):
        _ = ReleasedItem("a1", "twice", folder).spec


@pytest.mark.slow
def test_known_mistakes_of_the_real_course_are_named(tmp_path):
    """The first assignment stands for all. One of its wrong answers only raises errors, as many mistakes do."""
    unnamed, wrongly = [], []
    with Pool() as pool:
        for item in content.assignments(content.installed())[0].items:
            sandbox, files = pool.get(item.spec.uses), needed_solutions(item)
            released.write(item, tmp_path / f"{item.name}{RELEASED_SUFFIX}", sandbox, 5)
            copy = ReleasedItem(item.assignment, item.name, tmp_path)
            for wrong in item.spec.wrong:
                mistake = judge(copy, wrong.text(item.master.solution), sandbox, seed=5, files=files).mistake
                if mistake is None:
                    unnamed.append(wrong.id)
                elif mistake.id != wrong.id:
                    wrongly.append((wrong.id, mistake.id))
    assert (unnamed, wrongly) == (["mask-as-fourth"], [])


def test_words_that_are_the_solution_are_not_shown(tmp_path, sandbox):
    """The record of `letter_meanings` was its solution."""
    (item,) = content.find("a1.letter_meanings", content.installed())
    released.write(item, tmp_path / "letter_meanings.checks", sandbox, 5)
    copy = ReleasedItem("a1", "letter_meanings", tmp_path)
    assert "head size" not in str(copy.record["expected"]) + str(copy.record["checks"])
    assert judge(copy, item.master.solution, sandbox, seed=1).passed
    wrong = item.spec.wrong[0]
    grade = judge(copy, wrong.text(item.master.solution), sandbox, seed=1)
    assert grade.mistake.id == wrong.id
    assert [outcome.problem for outcome in grade.outcomes if outcome.problem] == [released.NOT_THESE] * 3


MIXED_CHECKS = """from kmha.course.exercises import Check, Exercise


def draw(rng):
    return {"array": rng.normal(size=3), "named": bool(rng.integers(2))}


def ask(answer, inputs):
    return "a name" if inputs["named"] else answer.twice(inputs["array"])


EXERCISE = Exercise("Mixed", "?", 1, 1, (Check("values", "names and numbers", 1, draw, ask, times=9),), ())
"""


def test_words_among_numbers_are_compared_as_numbers_are(doubling, tmp_path, sandbox):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "twice.py").write_text(MIXED_CHECKS)
    (tmp_path / "twice.py").write_bytes((doubling.folder / "twice.py").read_bytes())
    item = Item("a1", "twice", tmp_path)
    released.write(item, tmp_path / "twice.checks", sandbox, 5)
    copy = ReleasedItem("a1", "twice", tmp_path)
    assert "a name" in copy.record["expected"]
    assert judge(copy, item.master.solution, sandbox, seed=1).passed
