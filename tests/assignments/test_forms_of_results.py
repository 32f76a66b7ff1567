"""Right answers whose results have another form than the solution's, and wrong ones that have nearly the right form."""

import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import needed_solutions

RIGHT = {
    "a2.head_ablation": {"return np.array(rises)": "return rises"},
    "a2.prune_in_order": {
        '"order": np.array(order)': '"order": order',
        '"losses": np.array(losses)': '"losses": losses',
        '"seconds": np.array(seconds)': '"seconds": seconds',
    },
    "a3.bilinear_form": {
        "return bilinear, from_bilinear, from_projections": "found = bilinear, from_bilinear, from_projections\n"
        '    return tuple(array.astype("float32") for array in found)'
    },
    "a4.split_heads": {"import numpy as np\n": "import numpy as np\nfrom numpy import *\n"},
}
WRONG = {
    "a1.cross_kv": {"return key, value": "return np.squeeze(key), np.squeeze(value)"},
    "a2.d2l_shapes": {"num_hiddens // num_heads": "num_hiddens / num_heads"},
    "a2.head_widths": {"num_hiddens // num_heads": "num_hiddens / num_heads"},
    "a4.merge_heads": {
        "return heads.reshape(batch, positions, num_heads * size)": "return np.squeeze("
        "heads.reshape(batch, positions, num_heads * size))"
    },
}


def _judged(name, edits, sandbox):
    (item,) = content.find(name, content.installed())
    code = item.master.solution
    for old, new in edits.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    return judge(item, code, sandbox, seed=3, files=needed_solutions(item), explained=False)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_in_another_form(name, sandbox):
    assert [outcome.problem for outcome in _judged(name, RIGHT[name], sandbox).outcomes if outcome.problem] == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_in_nearly_the_right_form(name, sandbox):
    grade = _judged(name, WRONG[name], sandbox)
    assert grade.error is None
    assert not grade.passed
