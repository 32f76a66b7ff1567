"""The checks of `catches`: how many mistakes of the bank the learner's test finds, and whether it accepts right code.

The implementations run outside the sandbox, and right ones are among them. The sandbox sees only tokens, which reveal
nothing: they come from a secret key, and their order does too. Each token has a process of its own. So an answer cannot
compare implementations with each other (the sandbox's README says how well processes are kept apart), and must know
itself what is right.
"""

import hashlib
import random
import secrets
from functools import cache
from itertools import pairwise

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong
from kmha.course.judging import same
from kmha.course.judging.comparing import count, has_text
from kmha.verify.chains import ImpossibleError, Trial, run
from kmha.verify.mistakes import BANK

RIGHT = 24  # right implementations among the wrong ones
SHARES = (0.25, 0.5, 0.75, 0.99)
MOST, LARGEST = 20_000, 100_000  # elements of an argument, and of any product of the arguments


def _results(query, key, value, mask=None, mistake=None):
    trial = Trial("asked", *(np.asarray(each, float) for each in (query, key, value)), mask=mask)
    state = run(trial, [BANK[mistake].changes] if mistake else [])
    return state["output"], state["returned"]


@cache
def mistakes():
    """Return the ids of the mistakes that change the result of some call, so that a test can find them."""
    rng = np.random.default_rng(20171207)
    calls = []
    for _ in range(2):
        arrays = [3 * rng.normal(size=(3, 2, length, 7)) for length in (4, 5, 5)]
        mask = rng.random((3, 4, 5)) < 0.5
        mask[0, 1] = False
        calls += [(*arrays, None), (*arrays, mask)]
    right = [_results(*call) for call in calls]
    found = []
    for id, mistake in BANK.items():
        if "attention" not in mistake.chains():
            continue
        try:
            wrong = [_results(*call, mistake=id) for call in calls]
        except ImpossibleError:
            continue
        if not same(wrong, right, 1e-2):
            found.append(id)
    return tuple(found)


_KEY = secrets.token_bytes(32)
_behind = {}  # what a token stands for: a mistake, or `None` if the implementation is right, and whether it is float32


@cache
def _implementations():
    """Return what the tokens stand for."""
    secret = random.Random(_KEY)
    # Half of the right ones are in float32, and so are about half of the wrong ones.
    right = [(None, bool(index % 2)) for index in range(RIGHT)]
    return [*((id, secret.random() < 0.5) for id in mistakes()), *right]


def draw(rng):
    """Return a token for each implementation. Neither the tokens nor their order say anything about it."""
    seed = int(rng.integers(1 << 32))
    tokens = [
        hashlib.blake2b(f"{seed}/{index}".encode(), key=_KEY, digest_size=16).hexdigest()
        for index in range(len(_implementations()))
    ]
    _behind.update(zip(tokens, _implementations(), strict=True))
    return {"token": sorted(tokens)}


def _check_sizes(query, key, value, mask):
    """Refuse large arrays, since nothing else limits a computation outside the sandbox.

    Raises:
        ValueError: An array is too large or has the wrong shape.
    """
    arrays = {"query": query, "key": key, "value": value, "mask": mask}
    if any(map(has_text, arrays.values())):  # as arrays, all elements would be as large as the longest text
        raise ValueError("expected arrays of numbers. Received text.")
    sizes = {name: count(array) for name, array in arrays.items()}
    for name, number in sizes.items():
        if number > MOST:
            raise ValueError(
                f"expected at most {MOST:,} elements. Received {number:,} for {name}: choose smaller sizes."
            )
    if any(map(np.iscomplexobj, arrays.values())):  # NumPy would print a warning outside the sandbox
        raise ValueError("expected arrays of real numbers. Received complex numbers.")
    shapes = [np.shape(array) for array in (query, key, value)]
    # Without this, an array of no elements could have axes of any length.
    if any(len(shape) != 4 for shape in shapes) or not all(sizes.values()):
        raise ValueError(f"expected arrays with four axes and at least one element. Received the shapes {shapes}.")
    (batch, heads, rows, size), of_key, of_value = shapes
    if of_key != (batch, heads, of_key[2], size) or of_value[:3] != of_key[:3]:
        raise ValueError(
            "expected query (B, H, T, O), and key and value (B, H, S, O). "
            f"Received the shapes {(batch, heads, rows, size)}, {of_key} and {of_value}."
        )
    # A wrong implementation may multiply any two axes.
    if batch * heads * max(rows, *of_key[2:], of_value[3]) ** 2 > LARGEST:
        raise ValueError(f"the shapes {shapes} are too large: choose smaller sizes.")


def serve(name, query, key, value, mask=None):
    """Return an implementation's results, in float32 for some of them."""
    id, single = _behind[name]
    _check_sizes(query, key, value, mask)
    with np.errstate(all="ignore"):  # warnings about an answer's numbers would be printed outside the sandbox
        output, scores = _results(query, key, value, None if mask is None else np.asarray(mask, bool), id)
        if single:
            return np.asarray(output, np.float32), np.asarray(scores, np.float32)
    return output, scores


def ask(answer, inputs):
    """Return whether the learner's test objects to an implementation, or the error that it raises instead.

    Any error counts as an objection, because a result with a missing axis may break the test.
    """
    import traceback

    try:
        answer.catches(worker_api.remote(inputs["token"]))
    except AssertionError:
        return True
    except Exception as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == answer.__file__]
        line = f" (line {own[-1].lineno}: {own[-1].line})" if own else ""
        return f"{type(error).__name__}: {str(error)[:300]}{line}"
    return False


def _sorted(inputs, result):
    """Return what the test says of the right implementations, and for each mistake whether it objects to it."""
    said = [(_behind[token][0], says) for token, says in zip(inputs["token"], result, strict=True)]
    return [says for id, says in said if id is None], {id: bool(says) for id, says in said if id is not None}


def _accepts(inputs, result, expected):
    right, wrong = _sorted(inputs, result)
    if broken := next((says for says in right if isinstance(says, str)), None):
        return f"it breaks with a right implementation. {broken}"
    if any(right):
        singles = [says for token, says in zip(inputs["token"], result, strict=True) if _behind[token] == (None, True)]
        which = "All of them compute in float32. " if sum(right) == sum(singles) else ""
        if all(right):
            which = "Its own expected numbers may be wrong: compare one row with what the text says. "
        return (
            f"it objects to {sum(right)} of {len(right)} right implementations. {which}Right results differ by rounding, "
            "in float32 by about 1e-7: leave room for that."
        )
    if not any(wrong.values()):
        return "it objects to no implementation at all. Raise an error, as `assert` does; the returned value does not count."
    return None


def _kills(share, before):
    """Return a judge. The lowest share that is not reached names a mistake that the test misses."""

    def judge(inputs, result, expected):
        right, wrong = _sorted(inputs, result)
        if any(right):
            return "it objects to right implementations too, so its objections prove nothing."
        killed = sum(wrong.values())
        if killed >= share * len(wrong):
            return None
        says = f"it finds {killed} of {len(wrong)} mistakes."
        if killed < before * len(wrong):
            return says
        example = next(id for id in mistakes() if not wrong[id])
        return f"{says} It misses an implementation with this mistake: “{BANK[example].says}”"

    return judge


LOOP = """        for b, h, t in np.ndindex(batch, heads, rows):
            allowed = np.ones(columns, bool) if mask is None else mask[b, t]
            powers = np.exp([query[b, h, t] @ key[b, h, s] / np.sqrt(size) for s in range(columns)]) * allowed
            expected = powers / powers.sum() if allowed.any() else powers
            assert np.allclose(scores[b, h, t], expected, atol=1e-5)
            assert np.allclose(output[b, h, t], expected @ value[b, h], atol=1e-5)
"""
SCORES = "            assert np.allclose(scores[b, h, t], expected, atol=1e-5)\n"
OUTPUT = "            assert np.allclose(output[b, h, t], expected @ value[b, h], atol=1e-5)\n"
MEANS = (
    "        mixed = []\n"
    + LOOP.replace(SCORES, "").replace(OUTPUT, "            mixed.append(np.mean(expected @ value[b, h]))\n")
    + "        assert np.allclose(np.mean(output), np.mean(mixed), atol=0.05)\n"
)

EXERCISE = Exercise(
    title="The test that catches it",
    question="How could you have noticed that the layer was wrong? (asked in the thread behind every program of this assignment)",
    difficulty=3,
    minutes=30,
    checks=(
        Check("invariants", "it objects only to wrong implementations", 2, draw, ask, _accepts, times=1, apart="token"),
        *(
            Check(
                "values",
                f"it finds {share:.0%} of the mistakes",
                2,
                draw,
                ask,
                _kills(share, before),
                times=1,
                apart="token",
            )
            for before, share in pairwise((0.0, *SHARES))
        ),
    ),
    wrong=(
        Wrong(
            "only-shapes",
            "Your test objects to nothing that has the right shapes, and nearly every mistake keeps them. Compare the numbers, "
            "and raise an error where they differ: what the test returns does not count.",
            {LOOP: ""},
        ),
        Wrong(
            "objects-to-everything",
            "Your test objects to right implementations too, so its objections prove nothing.",
            {LOOP: LOOP + "        assert False\n"},
        ),
        Wrong(
            "rows-sum-to-one",
            "Your test checks the sums of the rows. Nearly all mistakes leave a softmax that sums to one.",
            {LOOP: "        assert np.all(np.abs(np.sum(scores, axis=-1) - 1) < 1e-4) or mask is not None\n"},
        ),
        Wrong(
            "no-mask",
            "Your test never passes a mask, and half of the mistakes are in the mask.",
            {"for mask in (None, ragged):": "for mask in (None,):"},
        ),
        Wrong(
            "mean-only",
            "Your test compares means. Errors of opposite sign cancel, and a permutation changes no mean.",
            {LOOP: MEANS},
        ),
        Wrong(
            "first-sentence-only",
            "Your test checks only the first sentence and the first head, so it misses mistakes that mix sentences or heads.",
            {"np.ndindex(batch, heads, rows)": "np.ndindex(1, 1, rows)"},
        ),
        Wrong(
            "scores-only",
            "Your test compares the scores but never the output, so it misses mistakes in the mix with the values.",
            {OUTPUT: ""},
        ),
        Wrong(
            "output-only",
            "Your test compares the output but never the returned scores.",
            {SCORES: ""},
        ),
        Wrong(
            "too-strict",
            "Your test leaves no room for rounding. An implementation in float32 is right, and differs by 1e-7.",
            {SCORES: SCORES.replace("1e-5", "1e-13, rtol=0"), OUTPUT: OUTPUT.replace("1e-5", "1e-13, rtol=0")},
        ),
    ),
    seconds=30.0,
    serve=serve,
)
