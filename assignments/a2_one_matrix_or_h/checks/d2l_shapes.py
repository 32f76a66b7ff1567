"""Checks of `d2l_shapes`, grouped by shapes."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes

QUERY = '"W_q": (query_size, num_hiddens)'
KEY = '"W_k": (key_size, num_hiddens)'
VALUE = '"W_v": (value_size, num_hiddens)'
LAST, PROJECTED = '"W_o": (num_hiddens, num_hiddens)', '"queries": (batch, rows, num_hiddens)'
SIZES = "folded, size = batch * num_heads, num_hiddens // num_heads"
SCORES = '"scores": (folded, rows, columns)'


def draw(rng):
    """Draw pairwise different widths. The three input widths are no multiples of the number of heads."""
    batch, rows, columns, heads, size = sizes(rng, 5)
    widths = [int(width) for width in rng.permutation(heads * np.array([size - 1, size + 1, size + 2]) + 1)]
    return {
        "query_shape": (batch, rows, widths[0]),
        "key_shape": (batch, columns, widths[1]),
        "value_shape": (batch, columns, widths[2]),
        "num_hiddens": heads * size,
        "num_heads": heads,
    }


def draw_example(rng):
    """Draw the textbook's own example: all widths are 100, and there are five heads."""
    batch, rows, columns = sizes(rng, 3)
    return {
        "query_shape": (batch, rows, 100),
        "key_shape": (batch, columns, 100),
        "value_shape": (batch, columns, 100),
        "num_hiddens": 100,
        "num_heads": 5,
    }


def judge_only(*names):
    """Return a judge that looks only at these shapes."""

    def judge(inputs, result, expected):
        for name in names or expected:
            if name not in result:
                return f"{name!r} is missing."
            if tuple(result[name]) != tuple(expected[name]):
                return f"{name!r} is wrong: yours is {tuple(result[name])}."
            if any(np.asarray(each).dtype.kind == "f" for each in result[name]):
                return f"{name!r} is {tuple(result[name])}, but a shape contains only integers."
        return None

    return judge


EXERCISE = Exercise(
    title="When num_hiddens is not query_size",
    question="What if num_hiddens is not equal to query_size, and is the comment in `forward` right? (seed 001, a "
    "textbook's forum)",
    difficulty=1,
    minutes=15,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "the four matrices", 3, draw, judge=judge_only("W_q", "W_k", "W_v", "W_o")),
        Check(
            "values", "the split", 2, draw, judge=judge_only("queries", "split queries", "split keys", "split values")
        ),
        Check("values", "the scores and the mixed values", 2, draw, judge=judge_only("scores", "mixed")),
        Check("values", "the joined heads and the output", 1, draw, judge=judge_only("joined", "output")),
        Check("edge", "the textbook's example, where all widths are 100", 1, draw_example, judge=judge_only()),
    ),
    wrong=(
        Wrong(
            "inputs-of-num-hiddens",
            "You gave the matrices num_hiddens input features, as the comment says. Each matrix takes the width of "
            "its own input.",
            {
                QUERY: QUERY.replace("query_size", "num_hiddens"),
                KEY: KEY.replace("key_size", "num_hiddens"),
                VALUE: VALUE.replace("value_size", "num_hiddens"),
            },
            "seed 001",
        ),
        Wrong(
            "query-keeps-its-width",
            "You kept the width of the query after W_q. Then you could not compare it with keys of another width: W_q "
            "leads to num_hiddens.",
            {
                QUERY: QUERY.replace("num_hiddens", "query_size"),
                PROJECTED: PROJECTED.replace("num_hiddens", "query_size"),
            },
            "seed 001",
        ),
        Wrong(
            "kernel-transposed",
            "You gave the matrices as (out, in), as `nn.Linear` stores them. Give them as (in, out) here.",
            {
                QUERY: '"W_q": (num_hiddens, query_size)',
                KEY: '"W_k": (num_hiddens, key_size)',
                VALUE: '"W_v": (num_hiddens, value_size)',
            },
            "rasbt/LLMs-from-scratch#857",
        ),
        Wrong(
            "width-for-every-head",
            "You made the matrices H times too wide, as if each head had num_hiddens features. That is the width of "
            "all heads together.",
            {
                QUERY: '"W_q": (query_size, num_hiddens * num_heads)',
                KEY: '"W_k": (key_size, num_hiddens * num_heads)',
                VALUE: '"W_v": (value_size, num_hiddens * num_heads)',
            },
            "seed 001",
        ),
        Wrong(
            "heads-not-in-batch",
            "You left the heads out of the batch axis. After the split there are B·H items.",
            {SIZES: SIZES.replace("batch * num_heads", "batch")},
        ),
        Wrong(
            "heads-not-narrower",
            "You made each head num_hiddens wide. The split moves numbers; it does not make new ones.",
            {SIZES: SIZES.replace(" // num_heads", "")},
        ),
        Wrong(
            "size-of-the-query",
            "You divided query_size by the number of heads. The layer splits the product, which is num_hiddens wide.",
            {SIZES: SIZES.replace("num_hiddens //", "query_size //")},
            "seed 001",
        ),
        Wrong(
            "scores-with-a-head-axis",
            "You gave the scores an axis for the heads, (B, H, T, S). In this layer the heads stay in the batch until "
            "they are joined.",
            {SCORES: '"scores": (batch, num_heads, rows, columns)'},
        ),
        Wrong(
            "scores-transposed",
            "You gave the scores a row for every key. They have a row for every query and a column for every key.",
            {SCORES: '"scores": (folded, columns, rows)'},
        ),
        Wrong(
            "scores-of-queries",
            "You made the scores as wide as they are high. The number of keys may differ from the number of queries.",
            {SCORES: '"scores": (folded, rows, rows)'},
        ),
        Wrong(
            "output-as-the-query",
            "You gave the output the width of the query. The last matrix of this layer leads from num_hiddens to "
            "num_hiddens.",
            {
                LAST: '"W_o": (num_hiddens, query_size)',
                '"output": (batch, rows, num_hiddens)': '"output": (batch, rows, query_size)',
            },
        ),
    ),
)
