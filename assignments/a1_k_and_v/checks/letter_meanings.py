"""Checks of `letter_meanings`, and the meanings that a forum gave."""

from kmha.course.exercises import Check, Exercise, Wrong

FIXED = 'if step == "mix":\n        meanings["I"] = "head size"'
LAST = 'if step == "output":\n        meanings.update(I="head size", O="output features")'
OF_N, OF_M, OF_O = '"N": "query positions"', '"M": "source positions"', '"O": "head size"'


def shuffled(rng, steps):
    return {"steps": [str(step) for step in rng.permutation(steps)]}


def draw_projections(rng):
    return shuffled(rng, ["query", "key", "value"])


def draw_scores(rng):
    return shuffled(rng, ["logits"])


def draw_reused(rng):
    return shuffled(rng, ["mix", "output"])


def ask(answer, inputs):
    return {step: answer.letter_meanings(step) for step in inputs["steps"]}


EXERCISE = Exercise(
    title="What does each letter mean?",
    question="Do N and M count features, and is O the width of the output? (seed 000, a course forum)",
    difficulty=1,
    minutes=10,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "the letters of the three projections", 4, draw_projections, ask, times=1),
        Check("values", "the letters of the logits", 1, draw_scores, ask, times=1),
        Check("values", "the letters that “mix” and “output” reuse", 4, draw_reused, ask, times=1),
    ),
    wrong=(
        Wrong(
            "positions-are-features",
            "You took N and M for features. They count positions, the words of a sentence. The projections sum over "
            "the features, but not over N and M.",
            {OF_N: OF_N.replace("query positions", "input features"), OF_M: '"M": "input features"'},
            "seed 000",
        ),
        Wrong(
            "head-size-is-output",
            "You took O for the width of the output in every equation. In the projections, O is the width of one "
            "head; only the output kernel has an axis for the width of the output.",
            {OF_O: '"O": "output features"'},
            "seed 000",
        ),
        Wrong(
            "letters-keep-their-meaning",
            "You gave I and O the same meaning in all six equations. In the last two they name other axes.",
            {FIXED: "", LAST: ""},
            "seed 000",
        ),
        Wrong(
            "i-keeps-its-meaning",
            "You gave I the same meaning in all six equations. The projections sum over the input features, so no "
            "later step has them.",
            {FIXED: "", 'I="head size", O=': "O="},
        ),
        Wrong(
            "mix-sums-features",
            "You gave the value in “mix” the input features. By then it has been projected: its last axis is the "
            "width of one head.",
            {FIXED: ""},
        ),
        Wrong(
            "output-in-head-size",
            "You took the last axis of the layer's output for the head size. By then all heads have been joined.",
            {', O="output features")': ")"},
        ),
        Wrong(
            "output-of-input-features",
            "You gave the output kernel the input features. What it receives is what the heads have mixed.",
            {'meanings.update(I="head size", O="output features")': 'meanings["O"] = "output features"'},
        ),
        Wrong(
            "one-kind-of-positions",
            "You took M for query positions, which is right only if query and key are the same sequence. In the "
            "decoder's second attention the query is the target and the key is the source, and their lengths differ.",
            {OF_M: '"M": "query positions"'},
            "seed 000",
        ),
        Wrong(
            "positions-exchanged",
            "You exchanged N and M. N is in the equation of the query; M is in those of key and value.",
            {OF_N: '"N": "source positions"', OF_M: '"M": "query positions"'},
        ),
        Wrong(
            "heads-and-size-exchanged",
            "You exchanged H and O. H is the number of heads; O is the width of each.",
            {'"H": "heads"': '"H": "head size"', OF_O: '"O": "heads"'},
        ),
    ),
)
