"""The checks of `catches`: how many mistakes of the bank the learner's test finds, and whether it accepts right code.

The implementations run outside the sandbox, and right ones are among them. The sandbox sees only tokens, which reveal
nothing: they come from a secret key, and their order does too. Some wrong implementations occur as often as the right
one, and answer the simplest questions as the right one does. So an answer that counts equal results cannot tell which
is right, unless it asks what a good test asks.
"""

import hashlib
import itertools
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
DECOYS = 12  # mistakes that occur as often as the right implementation
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


def simplest_questions(mistake=None):
    """Return how many of the simplest questions about a result an implementation answers as the right one does."""
    rng = np.random.default_rng(3)
    query, key, value = (2 * rng.normal(size=(3, 2, length, 7)) for length in (4, 5, 5))
    mask = rng.random((3, 4, 5)) < 0.6
    mask[:, 0], mask[1, 2] = True, False
    try:
        output, scores = _results(query, key, value, mistake=mistake)
        masked, seen = _results(query, key, value, mask, mistake)
    except ImpossibleError:
        return 0
    if np.shape(scores) != (3, 2, 4, 5) or np.shape(seen) != (3, 2, 4, 5):
        return 0
    ratio = query[0, 0, 0] @ (key[0, 0, 0] - key[0, 0, 1]) / np.sqrt(7)
    with np.errstate(all="ignore"):  # some mistakes give NaN
        answers = (
            np.allclose(scores.sum(-1), 1),
            same(output, scores @ value, 1e-5) and same(masked, seen @ value, 1e-5),
            not seen[np.broadcast_to(~mask[:, None], seen.shape)].any(),
            np.allclose(scores[0, 0, 0, 0], scores[0, 0, 0, 1] * np.exp(ratio), rtol=1e-3, atol=0),
        )
    return answers.index(False) if False in answers else len(answers)


@cache
def decoys():
    """Return the mistakes that answer the simplest questions best, and in secret order those that do as well."""
    secret = random.Random(_KEY)
    found = secret.sample(mistakes(), len(mistakes()))
    return sorted(found, key=simplest_questions, reverse=True)[:DECOYS]


_KEY = secrets.token_bytes(32)
_behind = {}  # what a token stands for: a mistake, or `None` if the implementation is right, and whether it is float32


@cache
def _implementations():
    """Return what the tokens stand for."""
    secret = random.Random(_KEY)
    wrong = [*mistakes()] + [id for id in decoys() for _ in range(RIGHT - 1)]
    # Half of each group is in float32: otherwise the dtype would tell which are right.
    single = {id: itertools.cycle(secret.sample([True, False], 2)) for id in (*mistakes(), None)}
    return [(id, next(single[id])) for id in (*wrong, *[None] * RIGHT)]


def draw(rng):
    """Return a token for each implementation. Neither the tokens nor their order say anything about it."""
    seed = int(rng.integers(1 << 32))
    tokens = [
        hashlib.blake2b(f"{seed}/{index}".encode(), key=_KEY, digest_size=16).hexdigest()
        for index in range(len(_implementations()))
    ]
    _behind.update(zip(tokens, _implementations(), strict=True))
    return {"tokens": sorted(tokens), "right": RIGHT}


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
    """Return an implementation's results, in float32 for every other one."""
    id, single = _behind[name]
    _check_sizes(query, key, value, mask)
    with np.errstate(all="ignore"):  # warnings about an answer's numbers would be printed outside the sandbox
        output, scores = _results(query, key, value, None if mask is None else np.asarray(mask, bool), id)
        if single:
            return np.asarray(output, np.float32), np.asarray(scores, np.float32)
    return output, scores


def ask(answer, inputs):
    """Return for every implementation whether the learner's test objects to it.

    Any error counts as an objection, because a result with a missing axis may break the test. If as many calls
    break as there are right implementations, the test itself is broken.
    """
    objects, broken = [], []
    for token in inputs["tokens"]:
        try:
            answer.catches(worker_api.remote(token))
            objects.append(False)
        except AssertionError:
            objects.append(True)
        except Exception as error:
            objects.append(True)
            broken.append(error)
    if len(broken) >= inputs["right"]:
        raise broken[0]
    return objects


def _sorted(inputs, result):
    """Return the verdicts on the right implementations, and for each mistake whether the test always objects to it."""
    tokens = inputs["tokens"]
    if not isinstance(result, list) or len(result) != len(tokens):
        raise TypeError("not one verdict each")
    right, wrong = [], {}
    for token, said in zip(tokens, result, strict=True):
        id, _ = _behind[token]
        if id is None:
            right.append(bool(said))
        else:
            wrong[id] = bool(said) and wrong.get(id, True)
    return right, wrong


def _accepts(inputs, result, expected):
    right, wrong = _sorted(inputs, result)
    if any(right):
        return f"it objects to {sum(right)} of {len(right)} right implementations."
    if not any(wrong.values()):
        return "it objects to no implementation at all. Raise an `AssertionError`; the returned value does not count."
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
        return f"{says} It misses this mistake: {BANK[example].says}"

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
        Check("invariants", "it objects only to wrong implementations", 2, draw, ask, _accepts, times=1),
        *(
            Check("values", f"it finds {share:.0%} of the mistakes", 2, draw, ask, _kills(share, before), times=1)
            for before, share in pairwise((0.0, *SHARES))
        ),
    ),
    wrong=(
        Wrong(
            "only-shapes",
            "Your test checks only shapes, and nearly every mistake keeps them.",
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
    seconds=60.0,
    serve=serve,
)
