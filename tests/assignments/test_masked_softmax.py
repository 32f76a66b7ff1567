import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge

MENDED = """
import numpy as np
from numpy import errstate, seterr

def masked_softmax(logits, mask, upstream):
    with {}:
        masked = np.where(mask[:, None], logits, -np.inf)
        powers = np.exp(masked - masked.max(-1, keepdims=True))
        scores = powers / powers.sum(-1, keepdims=True)
        gradient = scores * (upstream - (scores * upstream).sum(-1, keepdims=True))
    return np.nan_to_num(scores), np.nan_to_num(gradient)
"""
CHOSEN = """
import numpy as np

def masked_softmax(logits, mask, upstream):
    allowed = np.broadcast_to(mask[:, None], logits.shape)
    filled = np.where(allowed, logits, -1e30)
    powers = np.where(allowed, np.exp(filled - filled.max(-1, keepdims=True)), 0)
    total = powers.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        scores = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    return scores, scores * (upstream - (scores * upstream).sum(-1, keepdims=True))
"""


@pytest.mark.parametrize(
    "context",
    [
        "np.errstate()",
        "np.errstate(all='ignore')",
        "np.errstate(invalid='ignore')",
        "errstate(all='ignore')",
        "np.errstate(**seterr(all='ignore'))",
    ],
)
def test_a_nan_that_is_mended_at_the_end_loses_points(sandbox, context):
    (item,) = content.find("a4.masked_softmax", content.installed())
    grade = judge(item, MENDED.format(context), sandbox, seed=1)
    problems = [outcome.problem for outcome in grade.outcomes if outcome.problem]
    assert len(problems) == 2  # both draws have empty rows
    assert all("FloatingPointError: invalid value" in problem for problem in problems)
    assert grade.mistake.id == "nan-mended-twice"


ELSEWHERE = {
    "a context": "contextvars.Context().run(work)",
    "a thread": "thread = threading.Thread(target=work)\n    thread.start()\n    thread.join()",
    "unseen": "sys.setprofile(None)\n    contextvars.Context().run(work)",
    "unseen once": "try:\n        sys.setprofile(None)\n    except RuntimeError:\n        pass\n"
    "    contextvars.Context().run(work)",
    "its variable": "np._core.umath._extobj_contextvar.set(np._core.umath._make_extobj(invalid='ignore'))\n    work()",
    "unseen from the start": "unset(None)\n    contextvars.Context().run(work)",
}


@pytest.mark.parametrize("way", ELSEWHERE)
def test_a_nan_that_is_made_elsewhere_loses_points(sandbox, way):
    """NumPy raises an error on a NaN in the context for which that is set. In another one, a NaN was mended unseen."""
    (item,) = content.find("a4.masked_softmax", content.installed())
    code = MENDED.format("np.errstate()").replace("def masked_softmax", "def made")
    code += f"""
import contextvars, sys, threading
unset = sys.setprofile

def masked_softmax(logits, mask, upstream):
    found = []
    def work():
        found.append(made(logits, mask, upstream))
    {ELSEWHERE[way]}
    return found[0]
"""
    grade = judge(item, code, sandbox, seed=1, explained=False)
    (problem,) = (outcome.problem for outcome in grade.outcomes if outcome.problem)
    assert "computes in another context or thread" in problem


def test_an_answer_that_makes_no_nan(sandbox):
    (item,) = content.find("a4.masked_softmax", content.installed())
    assert judge(item, CHOSEN, sandbox, seed=1).passed


def test_an_answer_whose_function_ignores_all_errors(sandbox):
    (item,) = content.find("a4.masked_softmax", content.installed())
    code = MENDED.format("np.errstate()").replace("\ndef ", "\n@errstate(all='ignore')\ndef ", 1)
    assert not judge(item, code, sandbox, seed=1, explained=False).passed
