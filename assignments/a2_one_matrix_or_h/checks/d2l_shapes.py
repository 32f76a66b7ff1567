"""What is checked of `d2l_shapes`, by groups of shapes."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes

QUERY = '"W_q": (query_size, num_hiddens)'
KEY = '"W_k": (key_size, num_hiddens)'
VALUE = '"W_v": (value_size, num_hiddens)'
LAST, PROJECTED = '"W_o": (num_hiddens, num_hiddens)', '"queries": (batch, rows, num_hiddens)'
SIZES = "folded, size = batch * num_heads, num_hiddens // num_heads"
SCORES = '"scores": (folded, rows, columns)'


def draw(rng):
    """All widths different, and three of them no multiples of the heads."""
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
    """The textbook's own example: all widths are 100, and there are five heads."""
    batch, rows, columns = sizes(rng, 3)
    return {
        "query_shape": (batch, rows, 100),
        "key_shape": (batch, columns, 100),
        "value_shape": (batch, columns, 100),
        "num_hiddens": 100,
        "num_heads": 5,
    }


def of(*names):
    """A judge that looks at these shapes alone."""

    def judge(inputs, result, expected):
        for name in names or expected:
            if name not in result:
                return f"{name!r} is missing."
            if tuple(result[name]) != tuple(expected[name]):
                return f"{name!r} is wrong: yours is {tuple(result[name])}."
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
        Check("values", "the four matrices", 3, draw, judge=of("W_q", "W_k", "W_v", "W_o")),
        Check("values", "the split", 2, draw, judge=of("queries", "split queries", "split keys", "split values")),
        Check("values", "scores and what they mix", 2, draw, judge=of("scores", "mixed")),
        Check("values", "the joined heads and the output", 1, draw, judge=of("joined", "output")),
        Check("edge", "the textbook's example, where all widths are 100", 1, draw_example, judge=of()),
    ),
    wrong=(
        Wrong(
            "inputs-of-num-hiddens",
            "The matrices receive num_hiddens features, as the comment says: each receives the width of its own input.",
            {
                QUERY: QUERY.replace("query_size", "num_hiddens"),
                KEY: KEY.replace("key_size", "num_hiddens"),
                VALUE: VALUE.replace("value_size", "num_hiddens"),
            },
            "seed 001",
        ),
        Wrong(
            "query-keeps-its-width",
            "The query is as wide after W_q as before: then it could not be compared with keys of another width.",
            {
                QUERY: QUERY.replace("num_hiddens", "query_size"),
                PROJECTED: PROJECTED.replace("num_hiddens", "query_size"),
            },
            "seed 001",
        ),
        Wrong(
            "kernel-transposed",
            "The matrices are given as (out, in), as `nn.Linear` stores them: here they are meant as (in, out).",
            {
                QUERY: '"W_q": (num_hiddens, query_size)',
                KEY: '"W_k": (num_hiddens, key_size)',
                VALUE: '"W_v": (num_hiddens, value_size)',
            },
            "rasbt/LLMs-from-scratch#857",
        ),
        Wrong(
            "width-for-every-head",
            "The matrices are H times too wide, as if each head had num_hiddens features: all heads together "
            "have them.",
            {
                QUERY: '"W_q": (query_size, num_hiddens * num_heads)',
                KEY: '"W_k": (key_size, num_hiddens * num_heads)',
                VALUE: '"W_v": (value_size, num_hiddens * num_heads)',
            },
            "seed 001",
        ),
        Wrong(
            "heads-not-in-batch",
            "The heads are missing from the batch axis: after the split there are B·H items.",
            {SIZES: SIZES.replace("batch * num_heads", "batch")},
        ),
        Wrong(
            "heads-not-narrower",
            "Each head is num_hiddens wide: the split moves numbers, it makes no new ones.",
            {SIZES: SIZES.replace(" // num_heads", "")},
        ),
        Wrong(
            "size-of-the-query",
            "The head size is query_size divided by the heads: what is split is the product, which is "
            "num_hiddens wide.",
            {SIZES: SIZES.replace("num_hiddens //", "query_size //")},
            "seed 001",
        ),
        Wrong(
            "scores-with-a-head-axis",
            "The scores have an axis for heads, (B, H, T, S): here the heads stay in the batch until they are joined.",
            {SCORES: '"scores": (batch, num_heads, rows, columns)'},
        ),
        Wrong(
            "scores-transposed",
            "The scores have a row for every key: they have a row for every query, and a column for every key.",
            {SCORES: '"scores": (folded, columns, rows)'},
        ),
        Wrong(
            "scores-of-queries",
            "The scores are as wide as they are high: there may be another number of keys than of queries.",
            {SCORES: '"scores": (folded, rows, rows)'},
        ),
        Wrong(
            "output-as-the-query",
            "The output is as wide as the query was: this layer's last matrix leads from num_hiddens to num_hiddens.",
            {
                LAST: '"W_o": (num_hiddens, query_size)',
                '"output": (batch, rows, num_hiddens)': '"output": (batch, rows, query_size)',
            },
        ),
    ),
)
