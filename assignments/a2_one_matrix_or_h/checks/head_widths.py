"""Checks of `head_widths`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes

WIDTH = "width, more = num_hiddens // num_heads, int(bias)"
REMAINDER = (
    "    if num_hiddens % num_heads:\n"
    '        raise ValueError(f"num_hiddens={num_hiddens} is not a multiple of num_heads={num_heads}")\n'
)
SMALL = '"small": num_heads * (query_size + more) * width'
LARGE = '"large": (query_size + more) * num_hiddens'
INPUTS = "inputs = (query_size, key_size, value_size, num_hiddens)"


def draw_inputs(rng, bias):
    heads, size, *widths = sizes(rng, 5, least=3)
    names = ("query_size", "key_size", "value_size")
    # One more than a multiple of the number of heads: only num_hiddens must be a multiple.
    found = {name: heads * width + 1 for name, width in zip(names, widths, strict=True)}
    return {**found, "num_hiddens": heads * size, "num_heads": heads, "bias": bias}


def draw(rng):
    return draw_inputs(rng, bias=False)


def draw_bias(rng):
    return draw_inputs(rng, bias=True)


def draw_five(rng):
    """Draw the textbook's example, with queries of its width or of another."""
    return {
        **draw_inputs(rng, bias=False),
        "query_size": int(rng.choice([100, 30])),
        "num_hiddens": 100,
        "num_heads": 5,
    }


def draw_remainder(rng):
    """Draw sizes of which half fit. An error that is always expected could be raised for whoever asks.

    With 16 draws, all fit once in 65,536 times.
    """
    found = draw_inputs(rng, bias=bool(rng.integers(2)))
    more = int(rng.integers(1, found["num_heads"])) if rng.integers(2) and found["num_heads"] > 1 else 0
    return {**found, "num_hiddens": found["num_hiddens"] + more}


def error_name(answer, inputs):
    try:
        answer.head_widths(**inputs)
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return ""


def judge_error(inputs, result, expected):
    if result == expected:
        return None
    if result:
        return f"it raises {result}, expected {'a ValueError' if expected else 'no error: the sizes fit'}."
    return "it accepts a num_hiddens that num_heads does not divide. Expected a ValueError."


def judge_only(*names):
    """Return a judge that looks only at these numbers."""

    def judge(inputs, result, expected):
        for name in names or expected:
            if name not in result:
                return f"{name!r} is missing."
            if result[name] != expected[name]:
                return f"{name!r} is wrong: yours is {result[name]}."
            if np.asarray(result[name]).dtype.kind == "f":
                return f"{name!r} is {result[name]}, expected an integer."
        return None

    return judge


EXERCISE = Exercise(
    title="p_q h = p_o, and what it costs",
    question="Can p_q h = p_o hold with five heads, and do h heads have h times the parameters? (seed 001, a "
    "textbook's forum)",
    difficulty=1,
    minutes=15,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check(
            "values", "the widths of one head and of all heads", 2, draw, judge=judge_only("p_q", "p_k", "p_v", "p_o")
        ),
        Check("values", "the h small projections and the large one", 2, draw, judge=judge_only("small", "large")),
        Check("values", "the whole layer", 1, draw, judge=judge_only("layer")),
        Check("values", "with biases", 2, draw_bias, judge=judge_only()),
        Check("edge", "five heads and num_hiddens = 100", 1, draw_five, judge=judge_only()),
        Check(
            "edge", "a num_heads that does not divide num_hiddens", 1, draw_remainder, error_name, judge_error, times=16
        ),
    ),
    wrong=(
        Wrong(
            "width-is-query-size",
            "You set p_q to query_size. That is the width before the projection; p_q is the width after it.",
            {
                '"p_q": width': '"p_q": query_size',
                '"p_k": width': '"p_k": key_size',
                '"p_v": width': '"p_v": value_size',
            },
            "seed 001",
        ),
        Wrong(
            "inputs-must-divide",
            "You demand that num_heads divides query_size too. Only num_hiddens is cut into heads, after the "
            "projection.",
            {"if num_hiddens % num_heads:": "if any(size % num_heads for size in (query_size, num_hiddens)):"},
            "seed 001",
        ),
        Wrong(
            "width-of-the-input-divided",
            "You divided the width of the input by the number of heads. Divide num_hiddens instead, whatever the "
            "width of the input is.",
            {
                '"p_q": width': '"p_q": query_size // num_heads',
                '"p_k": width': '"p_k": key_size // num_heads',
                '"p_v": width': '"p_v": value_size // num_heads',
            },
            "seed 001",
        ),
        Wrong(
            "width-not-divided",
            "You made each head as wide as all heads together. Then p_q times h would be h times num_hiddens.",
            {WIDTH: WIDTH.replace(" // num_heads", "")},
            "seed 001",
        ),
        Wrong(
            "h-times-the-parameters",
            "You counted the h small projections as h large ones. Each of them is h times narrower.",
            {SMALL: '"small": num_heads * (query_size + more) * num_hiddens'},
            "seed 001",
        ),
        Wrong(
            "small-of-one-head",
            "You counted the small projection of one head. Count all h of them together.",
            {SMALL: '"small": (query_size + more) * width'},
        ),
        Wrong(
            "large-as-one-head",
            "You counted the large projection with the width of one head. It projects onto num_hiddens features.",
            {LARGE: '"large": (query_size + more) * width'},
        ),
        Wrong(
            "biases-once",
            "You counted the biases of the small projections for one head only. Each head has its own.",
            {SMALL: '"small": num_heads * query_size * width + more * width'},
        ),
        Wrong(
            "biases-one-number",
            "You counted a single bias for each projection of the layer. There is one for every output feature.",
            {"(size + more) * num_hiddens for": "size * num_hiddens + more for"},
        ),
        Wrong(
            "biases-per-input",
            "You counted a bias for every input feature. There is one for every output feature.",
            {
                SMALL: '"small": num_heads * query_size * (width + more)',
                LARGE: '"large": query_size * (num_hiddens + more)',
                "(size + more) * num_hiddens for": "size * (num_hiddens + more) for",
            },
        ),
        Wrong(
            "last-matrix-forgotten",
            "You left W_o out of the layer. Count all four projections.",
            {INPUTS: "inputs = (query_size, key_size, value_size)"},
        ),
        Wrong(
            "inputs-taken-for-equal",
            "You counted the projections of key and value with the width of the query. Each has the width of its own "
            "input.",
            {INPUTS: "inputs = (query_size, query_size, query_size, num_hiddens)"},
            "seed 001",
        ),
        Wrong(
            "remainder-dropped",
            "You rounded down silently when num_heads does not divide num_hiddens. Then some columns would belong to "
            "no head: raise a ValueError.",
            {REMAINDER: ""},
        ),
        Wrong(
            "width-as-output",
            "You set p_o to the width of one head. It is the width of all heads together.",
            {'"p_o": num_hiddens': '"p_o": width'},
        ),
    ),
)
