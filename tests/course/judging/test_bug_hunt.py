from types import SimpleNamespace

import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.exercises.content import ReleasedItem
from kmha.course.judging import released
from kmha.course.judging.bug_hunt import bank_without, mistake_is_named
from kmha.course.judging.pipeline import judge
from kmha.verify.chains.attention import Trial, run
from kmha.verify.mistakes import BANK


def test_name_is_compared_but_not_revealed():
    check = mistake_is_named(lambda rng: {}, points=3)
    assert check.points == 3
    assert check.ask(SimpleNamespace(MISTAKE="scale-missing"), {}) == "scale-missing"
    assert check.judge({}, "scale-missing", "scale-missing") is None
    for wrong in ("", "scale-all-heads", 3, None):
        assert "scale-missing" not in check.judge({}, wrong, "scale-missing")
        says = "`MISTAKE` is still" if wrong == "" else "`MISTAKE` is not the id"
        assert check.judge({}, wrong, "scale-missing").startswith(says)
    says = check.judge({}, "scale-mising", "scale-missing")
    assert says == "`MISTAKE` is 'scale-mising', and no id is called so. Did you mean `scale-missing`?"
    assert "scale-missing" not in check.judge({}, "sqrt", "scale-missing")
    assert check.judge({}, "x" * 300, "scale-missing").count("xx") == 30


@pytest.mark.parametrize("id", ["scale-missing", "softmax-over-queries"])
def test_bank_names_all_mistakes_but_one(id):
    rng = np.random.default_rng(0)
    trial = Trial("asked", *(rng.normal(size=(2, 3, length, 7)) for length in (4, 5, 5)))
    wrong, right = run(trial, [BANK[id].changes]), run(trial)
    result = bank_without("scale-missing", lambda output: output[0])
    expected = right if id == "scale-missing" else wrong
    np.testing.assert_array_equal(result(wrong), expected["output"][0])
    np.testing.assert_array_equal(result(right), right["output"][0])


def test_naming_a_mistake_without_fixing_it_earns_nothing(sandbox):
    programs = [item for item in content.items(content.installed()) if item.name.startswith("program_")]
    assert len(programs) > 10
    for item in programs:
        (line,) = (line for line in item.master.solution.splitlines() if line.startswith("MISTAKE = "))
        answer = item.master.starter.replace('MISTAKE = ""', line)
        grade = judge(item, answer, sandbox, seed=1, explained=False)
        (named,) = (outcome for outcome in grade.outcomes if outcome.check.layer == "named")
        assert named.pending, item.id
        assert grade.points == 0, item.id


def test_released_program_does_not_show_the_name(tmp_path, sandbox):
    """The id of the mistake was there in plain text."""
    (item,) = content.find("a8.program_01", content.installed())
    released.write(item, tmp_path / "program_01.checks", sandbox, 5)
    copy = ReleasedItem("a8", "program_01", tmp_path)
    (line,) = (line for line in item.master.solution.splitlines() if line.startswith("MISTAKE = "))
    name = line.split('"')[1]
    (of,) = (check["of"] for check in copy.record["checks"] if check["layer"] == "named")
    assert all(name not in str(copy.record["expected"][index]) for index in of)
    assert judge(copy, item.master.solution, sandbox, seed=1, explained=False).passed
    for wrong, says in (("scale-missing", "is not the id of the mistake in this program."), ("", "is still empty")):
        grade = judge(copy, item.master.solution.replace(name, wrong), sandbox, seed=1)
        (named,) = (outcome for outcome in grade.outcomes if outcome.check.layer == "named")
        assert says in named.problem
