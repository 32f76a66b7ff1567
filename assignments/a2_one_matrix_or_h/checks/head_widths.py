"""What is checked of `head_widths`."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes

WIDTH = "width, more = num_hiddens // num_heads, int(bias)"
REMAINDER = (
    "    if num_hiddens % num_heads:\n"
    '        raise ValueError(f"num_hiddens={num_hiddens} is not a multiple of num_heads={num_heads}")\n'
)
SMALL = '"small": num_heads * (query_size + more) * width'
LARGE = '"large": (query_size + more) * num_hiddens'
INPUTS = "inputs = (query_size, key_size, value_size, num_hiddens)"


def some(rng, bias):
    heads, size, *widths = sizes(rng, 5, least=3)
    found = {name: heads * width for name, width in zip(("query_size", "key_size", "value_size"), widths, strict=True)}
    return {**found, "num_hiddens": heads * size, "num_heads": heads, "bias": bias}


def draw(rng):
    return some(rng, bias=False)


def draw_bias(rng):
    return some(rng, bias=True)


def draw_five(rng):
    """The textbook's example, also with queries of another width."""
    return {**some(rng, bias=False), "query_size": int(rng.choice([100, 30])), "num_hiddens": 100, "num_heads": 5}


def draw_remainder(rng):
    found = some(rng, bias=False)
    return {**found, "num_hiddens": found["num_hiddens"] + 1}


def refused(answer, inputs):
    try:
        answer.head_widths(**inputs)
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return ""


def refuses(inputs, result, expected):
    if result == expected:
        return None
    if result:
        return f"it raises {result}: a ValueError is asked for."
    return "a num_hiddens that the heads do not divide is accepted, without a ValueError."


def of(*names):
    """A judge that looks at these numbers alone."""

    def judge(inputs, result, expected):
        for name in names or expected:
            if name not in result:
                return f"{name!r} is missing."
            if result[name] != expected[name]:
                return f"{name!r} is wrong: yours is {result[name]}."
        return None

    return judge


EXERCISE = Exercise(
    title="p_q h = p_o, and what it costs",
    question="Does p_q h = p_o contradict five heads, and have h heads h times the parameters? (seed 001, a "
    "textbook's forum)",
    difficulty=1,
    minutes=15,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "the widths of one head and of all", 2, draw, judge=of("p_q", "p_k", "p_v", "p_o")),
        Check("values", "the h small projections and the large one", 2, draw, judge=of("small", "large")),
        Check("values", "the whole layer", 1, draw, judge=of("layer")),
        Check("values", "with biases", 2, draw_bias, judge=of()),
        Check("edge", "five heads and num_hiddens = 100", 1, draw_five, judge=of()),
        Check("edge", "heads that do not divide num_hiddens", 1, draw_remainder, refused, refuses),
    ),
    wrong=(
        Wrong(
            "width-is-query-size",
            "p_q is set to query_size: that is the width before the projection, p_q the one after it.",
            {
                '"p_q": width': '"p_q": query_size',
                '"p_k": width': '"p_k": key_size',
                '"p_v": width': '"p_v": value_size',
            },
            "seed 001",
        ),
        Wrong(
            "width-of-the-input-divided",
            "The input's width is divided by the heads: what is divided is num_hiddens, whatever the input's width is.",
            {
                '"p_q": width': '"p_q": query_size // num_heads',
                '"p_k": width': '"p_k": key_size // num_heads',
                '"p_v": width': '"p_v": value_size // num_heads',
            },
            "seed 001",
        ),
        Wrong(
            "width-not-divided",
            "Each head is as wide as all together: p_q times h would be h times num_hiddens.",
            {WIDTH: WIDTH.replace(" // num_heads", "")},
            "seed 001",
        ),
        Wrong(
            "h-times-the-parameters",
            "The h small projections are counted as h large ones: each of them is h times narrower.",
            {SMALL: '"small": num_heads * (query_size + more) * num_hiddens'},
            "seed 001",
        ),
        Wrong(
            "small-of-one-head",
            "The small projection of one head is counted: asked for are all h of them together.",
            {SMALL: '"small": (query_size + more) * width'},
        ),
        Wrong(
            "large-as-one-head",
            "The large projection is counted with the width of one head.",
            {LARGE: '"large": (query_size + more) * width'},
        ),
        Wrong(
            "biases-once",
            "The small projections' biases are counted for one head only: each head has its own.",
            {SMALL: '"small": num_heads * query_size * width + more * width'},
        ),
        Wrong(
            "biases-one-number",
            "The layer's projections are counted with one bias each: there is one for every output feature.",
            {"(size + more) * num_hiddens for": "size * num_hiddens + more for"},
        ),
        Wrong(
            "biases-per-input",
            "A bias is counted for every input feature: there is one for every output feature.",
            {
                SMALL: '"small": num_heads * query_size * (width + more)',
                LARGE: '"large": query_size * (num_hiddens + more)',
                "(size + more) * num_hiddens for": "size * (num_hiddens + more) for",
            },
        ),
        Wrong(
            "last-matrix-forgotten",
            "The layer is counted without W_o.",
            {INPUTS: "inputs = (query_size, key_size, value_size)"},
        ),
        Wrong(
            "inputs-taken-for-equal",
            "The projections of key and value are counted with the query's width: each has that of its own input.",
            {INPUTS: "inputs = (query_size, query_size, query_size, num_hiddens)"},
            "seed 001",
        ),
        Wrong(
            "remainder-dropped",
            "A num_hiddens that the heads do not divide is rounded down without a word: some columns would be "
            "in no head.",
            {REMAINDER: ""},
        ),
        Wrong(
            "width-as-output",
            "p_o is given the width of one head: it is that of all heads together.",
            {'"p_o": num_hiddens': '"p_o": width'},
        ),
    ),
)
