"""What is checked of `letter_meanings`, and the labels that a forum gave."""

from kmha.course.exercises import Check, Exercise, Wrong

FIXED = 'if step == "mix":\n        meanings["I"] = "head size"'
LAST = 'if step == "output":\n        meanings.update(I="head size", O="output features")'
OF_N, OF_M, OF_O = '"N": "query positions"', '"M": "source positions"', '"O": "head size"'


def mixed(rng, steps):
    return {"steps": [str(step) for step in rng.permutation(steps)]}


def draw_projections(rng):
    return mixed(rng, ["query", "key", "value"])


def draw_scores(rng):
    return mixed(rng, ["logits"])


def draw_reused(rng):
    return mixed(rng, ["mix", "output"])


def ask(answer, inputs):
    return {step: answer.letter_meanings(step) for step in inputs["steps"]}


EXERCISE = Exercise(
    title="What every letter means",
    question="Are N and M numbers of features, and is O the output's width? (seed 000, a course's forum)",
    difficulty=1,
    minutes=10,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "the letters of the three projections", 4, draw_projections, ask, times=1),
        Check("values", "the letters of the logits", 1, draw_scores, ask, times=1),
        Check("values", "the letters that are used again, in “mix” and “output”", 4, draw_reused, ask, times=1),
    ),
    wrong=(
        Wrong(
            "positions-are-features",
            "N and M are labelled as features: they count positions, the words of a sentence. Features are summed over "
            "in the projections, and N and M are not.",
            {OF_N: OF_N.replace("query positions", "input features"), OF_M: '"M": "input features"'},
            "seed 000",
        ),
        Wrong(
            "head-size-is-output",
            "O is labelled as the output's width everywhere: in the projections it is the width of one head. "
            "The output's "
            "width is an axis of the output kernel alone.",
            {OF_O: '"O": "output features"'},
            "seed 000",
        ),
        Wrong(
            "letters-keep-their-meaning",
            "I and O mean in the last two equations what they mean in the first three: but there they are other axes.",
            {FIXED: "", LAST: ""},
            "seed 000",
        ),
        Wrong(
            "i-keeps-its-meaning",
            "I means in the last two equations what it means in the first three: but the input's features are summed "
            "over by the projections, and no later step has them.",
            {FIXED: "", 'I="head size", O=': "O="},
        ),
        Wrong(
            "mix-sums-features",
            "The value that “mix” receives has the input's features: it has been projected, and a head is narrower.",
            {FIXED: ""},
        ),
        Wrong(
            "output-in-head-size",
            "The last axis of the layer's output is labelled as the head size: all heads have been joined by then.",
            {', O="output features")': ")"},
        ),
        Wrong(
            "output-of-input-features",
            "The output kernel receives the input's features: it receives what the heads have mixed.",
            {'meanings.update(I="head size", O="output features")': 'meanings["O"] = "output features"'},
        ),
        Wrong(
            "one-kind-of-positions",
            "M is labelled as query positions, as where query and key are the same: in the decoder's second attention "
            "the query is the target and the key the source, and their lengths differ.",
            {OF_M: '"M": "query positions"'},
            "seed 000",
        ),
        Wrong(
            "positions-exchanged",
            "N and M are exchanged: N is in the query's equation, M in those of key and value.",
            {OF_N: '"N": "source positions"', OF_M: '"M": "query positions"'},
        ),
        Wrong(
            "heads-and-size-exchanged",
            "H and O are exchanged: H is how many heads there are, O how wide each is.",
            {'"H": "heads"': '"H": "head size"', OF_O: '"O": "heads"'},
        ),
    ),
)
