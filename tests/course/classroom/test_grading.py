"""Grade classes in this process, with one quick exercise."""

import ast
import json
import shutil
import threading
import unicodedata
from types import SimpleNamespace

import pytest

from kmha import atomic_files
from kmha.course.classroom import grades, grading
from kmha.course.classroom.grading import GradingRun, file_names, grade, handed_in
from kmha.course.classroom.likeness import fingerprint
from kmha.course.classroom.submissions import collect
from kmha.course.exercises import content
from kmha.course.exercises.handout import is_starter
from kmha.course.judging import locked_cache
from kmha.course.judging.kinds import missing_return
from kmha.course.judging.policy import violation
from kmha.course.judging.running import BrokenExerciseError
from kmha.sandbox import limits

ANSWERS = {
    "right": "def twice(array):\n    return 2 * array\n",
    "thrice": "def twice(array):\n    return 3 * array\n",
    "raises": "def twice(array):\n    raise KeyError('<b>')\n",
    "broken": "def twice(array:\n",
    "prints": "print('hello')\ndef twice(array):\n    return array\n",
}


def _hand_in(folder, answers, place="a1_doubling/twice.py"):
    for id, code in answers.items():
        (folder / id / place).parent.mkdir(parents=True)
        (folder / id / place).write_text(code)
    return collect(folder).students


def _run(tmp_path, doubling, **options):
    return GradingRun((doubling,), tmp_path / "results", **{"seed": 7, "jobs": 2, **options})


@pytest.fixture(scope="module")
def records(tmp_path_factory, doubling):
    folder = tmp_path_factory.mktemp("class")
    starter = doubling.items[0].master.starter
    answers = {**ANSWERS, "starter": starter, "renamed starter": starter.replace("The array", "My array")}
    handed = _hand_in(folder / "in", answers)
    (folder / "in" / "nothing").mkdir()
    return grade(collect(folder / "in").students | handed, _run(folder, doubling))


def test_points_mistakes_and_errors(records):
    told = {id: record["exercises"]["a1.twice"] for id, record in records.items()}
    assert {id: each["points"] for id, each in told.items()} == {**dict.fromkeys(told, 0), "right": 32}
    assert told["thrice"]["mistake"] == {"id": "thrice-as-much", "says": "The factor is 3.", "source": "a thread"}
    assert told["thrice"]["case"].startswith("array")
    assert told["raises"]["checks"][1]["wrong"].startswith("KeyError: '<b>' (line 2")
    assert told["broken"]["error"]["kind"] == "SyntaxError"
    assert told["prints"]["printed"] == "hello\n"
    assert told["nothing"]["error"]["says"] == grading.MISSING
    assert told["starter"]["error"]["says"] == grading.UNWRITTEN
    assert [check["visible"] for check in told["right"]["checks"]] == [True] * 5 + [False]
    assert {id: each["state"] for id, each in told.items()} == {
        **{"right": "right", "thrice": "wrong", "raises": "wrong", "broken": "does not run", "prints": "wrong"},
        **{"starter": "not begun", "nothing": "not begun", "renamed starter": "not begun"},
    }


def test_exercise_uses_the_students_own_answers(tmp_path, doubling):
    again = "from twice import twice\ndef again(array):\n    return twice(twice(array))\n"
    handed = _hand_in(tmp_path / "in", {"right": again, "thrice": again}, "a1/again.py")
    for id in handed:
        (tmp_path / "in" / id / "a1" / "twice.py").write_text(ANSWERS[id])
    found = grade(handed, _run(tmp_path, doubling))
    assert {id: record["exercises"]["a1.again"]["points"] for id, record in found.items()} == {"right": 5, "thrice": 0}


def _counted(monkeypatch, doubling):
    """Return a list to which every answer that is judged is added, without the solutions."""
    judged, judge = [], grading.judge
    solutions = [item.master.solution for item in doubling.items]

    def counted(item, code, *rest, **more):
        if code not in solutions:
            judged.append(code)
        return judge(item, code, *rest, **more)

    monkeypatch.setattr(grading, "judge", counted)
    return judged


def test_only_what_changed_is_graded_again(tmp_path, doubling, monkeypatch):
    handed = _hand_in(tmp_path / "in", ANSWERS)
    first = grade(handed, _run(tmp_path, doubling))
    judged = _counted(monkeypatch, doubling)
    assert grade(handed, _run(tmp_path, doubling)) == first
    assert judged == []
    changed = "def twice(array):\n    return array + array\n"
    (handed["raises"][0] / "a1_doubling" / "twice.py").write_text(changed)
    (tmp_path / "results" / "broken.json").write_text("[" * 100_000)
    found = grade(handed, _run(tmp_path, doubling))
    assert sorted(judged) == sorted([changed, ANSWERS["broken"]])
    assert found["raises"]["exercises"]["a1.twice"]["points"] == 32
    assert {**found, "raises": first["raises"]} == first
    grade(handed, _run(tmp_path, doubling, seed=8))
    assert len(judged) == 2 + len(ANSWERS)


def test_changed_checks_are_graded_again(tmp_path, doubling, monkeypatch):
    handed = _hand_in(tmp_path / "in", {"right": ANSWERS["right"]})
    grade(handed, _run(tmp_path, doubling))
    judged = _counted(monkeypatch, doubling)
    path = doubling.folder / "checks" / "twice.py"
    text = path.read_text()
    path.write_text(text + "# another line\n")
    try:
        grade(handed, _run(tmp_path, doubling))
    finally:
        path.write_text(text)
    assert len(judged) == 1


def test_solutions_and_wrong_answers_run_once(tmp_path, doubling, monkeypatch):
    from kmha.sandbox.sandbox import Sandbox

    ran = []
    run = Sandbox.run
    monkeypatch.setattr(
        Sandbox, "run", lambda self, name, code, *rest, **more: ran.append(code) or run(self, name, code, *rest, **more)
    )
    answers = {f"student{number}": f"def twice(array):\n    return {number} * array\n" for number in range(3, 9)}
    grade(_hand_in(tmp_path / "in", answers), _run(tmp_path, doubling, seed=2**20))
    solution = doubling.items[0].master.solution
    assert ran.count(solution) == 3  # as an answer before all others, for the checks, and for the smallest case
    assert ran.count(solution.replace("= 2", "= 3")) == 1
    assert ran.count(doubling.items[1].master.solution) == 2
    assert len(ran) == 6 + 2 * len(answers)


@pytest.mark.parametrize("part", ["likeness.fingerprint", "rendering.as_dict"])
def test_failure_after_judging_affects_one_student(tmp_path, doubling, monkeypatch, part):
    module, _, name = part.partition(".")
    works = getattr(getattr(grading, module), name)
    calls = []

    def fails(*args):
        calls.append(args)
        if len(calls) == 1:
            raise ZeroDivisionError("ours \udcff")
        return works(*args)

    monkeypatch.setattr(getattr(grading, module), name, fails)
    found = grade(_hand_in(tmp_path / "in", ANSWERS), _run(tmp_path, doubling, jobs=1))
    assert [record["failed"] for record in found.values()] == [True] + [False] * (len(ANSWERS) - 1)


def test_answers_do_not_share_a_processor(tmp_path, doubling, monkeypatch):
    """One with many threads would take the time of the others."""
    numbers = []

    class Counted(grading.Workers):
        def __init__(self, number):
            numbers.append(number)
            super().__init__(number)

    monkeypatch.setattr(grading, "Workers", Counted)
    grade(_hand_in(tmp_path / "in", ANSWERS), _run(tmp_path, doubling, jobs=50))
    assert numbers == [min(len(ANSWERS), len(limits.processors()))]


def test_a_long_answer_is_kept_in_part(tmp_path, doubling):
    """One file with all exercises and a long comment made a page of 100 MB."""
    code = f"{ANSWERS['right']}# {'x' * 50_000}\n"
    record = grade(_hand_in(tmp_path / "in", {"anna": code}), _run(tmp_path, doubling))["anna"]["exercises"]["a1.twice"]
    assert record["passed"]
    assert record["code"] == f"{code[:20_000]}\n… and {len(code) - 20_000:,} more characters, which are not shown.\n"


def test_grader_failure_affects_one_student(tmp_path, doubling, monkeypatch):
    judge = grading.judge

    def fails(item, code, *rest, **more):
        if "KeyError" in code:
            raise ZeroDivisionError("ours \udcff")
        return judge(item, code, *rest, **more)

    monkeypatch.setattr(grading, "judge", fails)
    handed = _hand_in(tmp_path / "in", ANSWERS)
    found = grade(handed, _run(tmp_path, doubling))
    assert [id for id, record in found.items() if record["failed"]] == ["raises"]
    assert (
        found["raises"]["exercises"]["a1.twice"]["error"]["says"]
        == r"the grader failed: ZeroDivisionError: ours \udcff"
    )
    assert found["right"]["exercises"]["a1.twice"]["passed"]
    monkeypatch.setattr(grading, "judge", judge)
    assert not grade(handed, _run(tmp_path, doubling))["raises"]["failed"]


def test_failure_to_read_a_submission_is_noted(tmp_path, doubling, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("\udcff\x1b")

    monkeypatch.setattr(grading.submissions, "read", fails)
    found = grade(_hand_in(tmp_path / "in", {"anna": ANSWERS["right"]}), _run(tmp_path, doubling))
    note = "The grader failed to read it: ZeroDivisionError: \\udcff\N{REPLACEMENT CHARACTER}"
    assert (found["anna"]["failed"], found["anna"]["notes"]) == (True, [note])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("return twice(twice(array))", "return open('/etc/shadow').read()", "PermissionError"),
        ("return twice(twice(array))", "return np.zeros(3)", "NameError"),
        ("    ### BEGIN SOLUTION", "    ### BEGIN SOLUTION\n    array += 1", "your code changes its argument array"),
    ],
)
def test_failing_solution_stops_grading_before_any_answer(course, tmp_path, old, new, reason):
    """A solution fails for every student if the sandbox of this machine keeps something from it."""
    shutil.copytree(course, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "course" / "a1_doubling" / "again.py"
    path.write_text(path.read_text().replace(old, new, 1))
    checks = path.parent / "checks" / "again.py"
    checks.write_text(checks.read_text().replace("values=5", "values=5, unchanged=1"))
    (assignment,) = content.assignments(tmp_path / "course")
    with pytest.raises(BrokenExerciseError, match=f"a1.again: its own solution fails: .*{reason}.*Nothing is graded"):
        grade(_hand_in(tmp_path / "in", {"right": ANSWERS["right"]}), _run(tmp_path, assignment))
    assert list((tmp_path / "results").iterdir()) == []


def test_interruption_ends_all_processes_and_leaves_complete_files(tmp_path, doubling):
    answers = {
        f"student{number}": f"import time; time.sleep({number})\n" + ANSWERS["right"] for number in range(0, 60, 10)
    }

    def stop(id):
        if id in answers:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        grade(_hand_in(tmp_path / "in", answers), _run(tmp_path, doubling, seconds=60), stop)
    assert threading.active_count() == before
    (path,) = (tmp_path / "results").iterdir()
    assert json.loads(path.read_text())["student"] == "student0"


SLOW = {
    "twice": "# slow\ndef twice(array):\n    return 2 * array\n",
    "again": "# slow\ndef again(array):\n    return 4 * array\n",
}
NOT_RUN = "it was not run, because this submission took more than 10 minutes. Use a larger --minutes."


def _with_a_slow_student(tmp_path):
    """Hand in two right answers each, of which those of mallory are slow."""
    for id, first in (("anna", ""), ("mallory", "slow")):
        for name, code in SLOW.items():
            path = tmp_path / "in" / id / "a1_doubling" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code.replace("slow", first))
    return collect(tmp_path / "in").students


def _clock(monkeypatch, doubling, *, slow, solution=0.0):
    """Let a clock run by some minutes for each slow answer, and for each solution. Return the answers that ran."""
    judge, now, judged = grading.judge, [0.0], []
    solutions = [item.master.solution for item in doubling.items]

    def counted(item, code, *rest, **more):
        judged.extend([item.id] if code not in solutions else [])
        now[0] += 60 * (solution if code in solutions else slow * ("slow" in code))
        return judge(item, code, *rest, **more)

    monkeypatch.setattr(grading, "judge", counted)
    monkeypatch.setattr(grading, "own_seconds", lambda: now[0])
    return judged


def test_answers_beyond_the_time_of_a_submission_are_not_run(tmp_path, doubling, monkeypatch):
    """A few students whose answers all used up their limits could hold up a class for days."""
    judged = _clock(monkeypatch, doubling, slow=11)
    found = grade(_with_a_slow_student(tmp_path), _run(tmp_path, doubling, jobs=1))
    assert judged == ["a1.twice", "a1.again", "a1.twice"]
    anna, mallory = found["anna"], found["mallory"]
    assert [each["state"] for each in anna["exercises"].values()] == ["right", "right"]
    assert [each["state"] for each in mallory["exercises"].values()] == ["right", "out of time"]
    assert mallory["exercises"]["a1.again"]["error"]["says"] == NOT_RUN
    assert mallory["exercises"]["a1.again"]["code"] == SLOW["again"]
    assert anna["notes"] == []
    assert mallory["notes"] == [
        "1 answer was not run, because this submission took more than 10 minutes: a1.again. Use a larger --minutes."
    ]
    assert not mallory["failed"]


def test_the_time_of_a_submission_begins_when_it_is_read(tmp_path, doubling, monkeypatch):
    """The limit began after the reading, which can take minutes too."""
    judged, now, read = _clock(monkeypatch, doubling, slow=0), grading.own_seconds, grading.submissions.read
    minutes = {"anna": 0, "mallory": 11}
    late = [0.0]

    def slow_read(id, *rest):
        late[0] += 60 * minutes[id]
        return read(id, *rest)

    monkeypatch.setattr(grading.submissions, "read", slow_read)
    monkeypatch.setattr(grading, "own_seconds", lambda: now() + late[0])
    found = grade(_with_a_slow_student(tmp_path), _run(tmp_path, doubling, jobs=1))
    assert judged == ["a1.twice", "a1.again"]
    states = {id: {each["state"] for each in record["exercises"].values()} for id, record in found.items()}
    assert states == {"anna": {"right"}, "mallory": {"out of time"}}


def test_what_was_not_handed_in_is_not_out_of_time(tmp_path, doubling, monkeypatch):
    handed = _with_a_slow_student(tmp_path)
    path = tmp_path / "in" / "mallory" / "a1_doubling" / "again.py"
    for text in (doubling.items[1].master.starter, None):
        path.unlink() if text is None else path.write_text(text)
        _clock(monkeypatch, doubling, slow=11)
        mallory = grade(handed, _run(tmp_path, doubling, jobs=1))["mallory"]
        assert (mallory["exercises"]["a1.again"]["state"], mallory["notes"]) == ("not begun", [])


@pytest.mark.parametrize(("slow", "solution"), [(10, 0), (100, 10)])
def test_a_slow_machine_gives_each_submission_more_time(tmp_path, doubling, monkeypatch, slow, solution):
    _clock(monkeypatch, doubling, slow=slow, solution=solution)
    found = grade(_with_a_slow_student(tmp_path), _run(tmp_path, doubling, jobs=1))
    assert {each["state"] for record in found.values() for each in record["exercises"].values()} == {"right"}


def test_only_a_submission_that_was_cut_off_depends_on_its_time(tmp_path, doubling, monkeypatch):
    handed, judged = _with_a_slow_student(tmp_path), _clock(monkeypatch, doubling, slow=11)
    first = grade(handed, _run(tmp_path, doubling, jobs=1))
    judged.clear()
    assert grade(handed, _run(tmp_path, doubling, jobs=1)) == first
    assert judged == []
    more = grade(handed, _run(tmp_path, doubling, jobs=1, minutes=12))
    assert judged == ["a1.twice", "a1.again"]
    assert (more["anna"], more["mallory"]["notes"]) == (first["anna"], [])
    assert grade(handed, _run(tmp_path, doubling, jobs=1)) == more
    assert judged == ["a1.twice", "a1.again"]


def test_a_resumed_run_gives_each_submission_its_whole_time(tmp_path, doubling, monkeypatch):
    handed = _with_a_slow_student(tmp_path)
    _clock(monkeypatch, doubling, slow=11)

    def stop(id):
        if id == "anna":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(handed, _run(tmp_path / "halves", doubling, jobs=1), stop)
    resumed = grade(handed, _run(tmp_path / "halves", doubling, jobs=1))
    assert resumed == grade(handed, _run(tmp_path / "at once", doubling, jobs=1))
    assert [each["state"] for each in resumed["mallory"]["exercises"].values()] == ["right", "out of time"]


def test_what_is_computed_for_all_students_is_nobodys_time(monkeypatch):
    """The first student with a wrong answer waits until all known wrong answers have run."""
    now = [0.0]
    monkeypatch.setattr(locked_cache, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(grading, "time", SimpleNamespace(monotonic=lambda: now[0]))
    before, cache = grading.own_seconds(), locked_cache.LockedCache(1)

    def compute(seconds):
        now[0] += seconds
        return seconds

    assert (cache.get(1, lambda: compute(7)), cache.get(1, lambda: compute(11))) == (7, 7)
    with pytest.raises(ZeroDivisionError):
        cache.get(2, lambda: compute(13) / 0)
    assert grading.own_seconds() == before
    compute(3)
    assert grading.own_seconds() == before + 3


def test_file_names_are_portable():
    ids = ["anna", "Anna", "../../etc/passwd", ".hidden", "ö ä", "x" * 300, "index", "<script>"]
    names = file_names(ids)
    assert names["anna"] == "anna"
    assert len({name.casefold() for name in names.values()}) == len(ids)
    assert all(name == name.strip(".") and "/" not in name and len(name) < 80 for name in names.values())
    assert names["index"] != "index"


def test_nobody_has_the_file_name_of_another():
    """Otherwise the page of one student would replace that of the other."""
    other = file_names(["Ann B"])["Ann B"]
    for ids in (["Ann B", other], [other, "Ann B"]):
        assert len(set(file_names(ids).values())) == 2


def test_no_two_file_names_are_the_same_letters():
    """macOS does not tell a composed letter from its parts."""
    names = file_names(["Zo\u00eb", "ZOE\u0308", "\ud55c", "\u1112\u1161\u11ab"]).values()
    assert len({unicodedata.normalize("NFC", name).casefold() for name in names}) == 4


def test_file_name_leaves_room_for_temporary_files(tmp_path):
    """A file name has at most 255 bytes, and a letter takes up to 4."""
    (name,) = file_names(["\N{CJK UNIFIED IDEOGRAPH-20000}" * 90]).values()
    atomic_files.write_json(tmp_path / f"{name}.json", {})
    assert len(f".{name}.json.".encode()) + 16 < 255


def test_handed_in(tmp_path, doubling):
    other = content.Assignment("a2", "Other", doubling.folder, ())
    handed = _hand_in(tmp_path / "in", {"anna": ANSWERS["right"]})
    assert handed_in(handed, (other, doubling)) == {doubling: 1}
    assert handed_in({}, (other, doubling)) == {other: 0, doubling: 0}


@pytest.fixture(scope="module")
def class_of_200(tmp_path_factory):
    """200 answers to one exercise of the first assignment, a quarter of them wrong."""
    (item,) = content.find("a1.cross_kv", content.installed())
    wrong = [each.text(item.master.solution) for each in item.spec.wrong]
    # One in four is wrong, and the mistakes differ.
    texts = [wrong[number // 4 % len(wrong)] if number % 4 == 3 else item.master.solution for number in range(200)]
    folder = tmp_path_factory.mktemp("class") / "in"
    answers = {f"student{number:03}": f"# {number}\n{texts[number]}" for number in range(200)}
    assignment = content.Assignment("a1", "One exercise", item.folder, (item,))
    return _hand_in(folder, answers, "a1_k_and_v/cross_kv.py"), assignment


@pytest.mark.slow
def test_200_submissions_interrupted_and_resumed_give_the_same_csv(tmp_path, class_of_200):
    handed, assignment = class_of_200
    done = []

    def stop(id):
        done.append(id)
        if len(done) == 61:  # the solution, and 60 answers
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(handed, _run(tmp_path / "halves", assignment), stop)
    resumed = grade(handed, _run(tmp_path / "halves", assignment))
    at_once = grade(handed, _run(tmp_path / "at-once", assignment, jobs=3))
    texts = [grades.as_csv(grades.student_points(each, [assignment]), [assignment]) for each in (resumed, at_once)]
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == 201
    points = [record["exercises"]["a1.cross_kv"]["points"] for record in resumed.values()]
    assert points == [0 if number % 4 == 3 else 10 for number in range(200)]
    named = [record["exercises"]["a1.cross_kv"]["mistake"] for record in resumed.values()]
    assert [mistake is not None for mistake in named] == [number % 4 == 3 for number in range(200)]


def test_a_result_is_kept_only_for_the_same_files_and_the_same_code(course, tmp_path, monkeypatch):
    """Not only the masters and checks: also the data beside them, and kmha's own code."""
    shutil.copytree(course, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "kmha" / "course").mkdir(parents=True)
    monkeypatch.setattr(grading, "ENGINE", tmp_path / "kmha")
    assignments = content.assignments(tmp_path / "course")
    submission = SimpleNamespace(digest="that of a submission")

    def key():
        return GradingRun(assignments, tmp_path, seed=7).key(submission)

    keys = [key(), key()]
    for path in ("course/a1_doubling/checks/printed.json", "course/a1_doubling/assignment.toml", "kmha/course/new.py"):
        with (tmp_path / path).open("a") as file:
            file.write("\n")
        keys.append(key())
    assert keys[0] == keys[1]
    assert len({*keys}) == 4


def test_a_file_is_parsed_as_often_whether_it_answers_one_exercise_or_many(doubling, monkeypatch):
    """A file of 250 KB that answers 8 exercises took 36 seconds, most of them for the same syntax trees."""
    item, parse, parsed = doubling.items[0], ast.parse, list[str]()
    monkeypatch.setattr(ast, "parse", lambda code, *more: parsed.append(code) or parse(code, *more))
    code = "import math\ndef twice(array):\n    many_exercises = array\n"
    for _ in range(3):
        assert not is_starter(code, item)
        assert violation(code, item.spec) is None
        assert missing_return(code, item.master.solution).id == "returned-nothing"
        assert fingerprint(code, item) == ""
    assert parsed.count(code) == 4
