"""The checks of `positional_encoding`, with the other tables that people make."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

ANGLES = "angles = get_angles(np.arange(positions)[:, None], np.arange(d)[None, :], d)"
ZEROS = "encoding = np.zeros((positions, d))"
SINES = "encoding[:, 0::2] = np.sin(angles[:, 0::2])"
COSINES = "encoding[:, 1::2] = np.cos(angles[:, 1::2])"
LAST = "return encoding[None]"
BOTH = SINES + "\n    " + COSINES
EVEN, ODD = "np.sin(angles[:, 0::2])", "np.cos(angles[:, 1::2])"


def draw(rng):
    """Return a number of positions and of features, odd or even."""
    positions, d = sizes(rng, 2, least=5, most=13)
    return {"positions": positions, "d": d}


def draw_odd(rng):
    """Return an odd number of features."""
    positions, half = sizes(rng, 2, least=2, most=9)
    return {"positions": positions, "d": 2 * half + 1}


def draw_long(rng):
    """Return hundreds of positions."""
    return {"positions": int(rng.integers(150, 400)), "d": sizes(rng, 1, least=5, most=13)[0]}


def on_circles(inputs, result, expected):
    """Check that sine and cosine of one angle lie on the unit circle, at all positions."""
    shape = (1, inputs["positions"], inputs["d"])
    if np.shape(result) != shape:
        return f"your result has the shape {np.shape(result)}, expected {shape}."
    table = np.asarray(result)[0]
    pairs = inputs["d"] // 2
    radii = table[:, 0 : 2 * pairs : 2] ** 2 + table[:, 1 : 2 * pairs : 2] ** 2
    if np.allclose(radii, 1.0):
        return None
    return "features 2i and 2i + 1 are not sine and cosine of one angle: their squares do not add up to 1."


EXERCISE = Exercise(
    title="The positional encoding",
    question="What do we add to an embedding so that attention knows positions, and how are sines and cosines arranged? (halves and interleaved tables: tensorflow/tensor2tensor#391, tensorflow/text#1122)",
    difficulty=1,
    minutes=10,
    needs=("get_angles",),
    checks=(
        *standard(draw, signature=1, shape=1, values=5),
        Check(
            "invariants",
            "features 2i and 2i + 1 are sine and cosine of one angle, at hundreds of positions",
            1,
            draw_long,
            judge=on_circles,
        ),
        Check("edge", "an odd number of features", 2, draw_odd),
    ),
    wrong=(
        Wrong(
            "positions-sine-cosine-swapped",
            "You put cosines at even features and sines at odd ones. It is the other way round.",
            {SINES: SINES.replace("np.sin", "np.cos"), COSINES: COSINES.replace("np.cos", "np.sin")},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-halves",
            "You put all sines first and all cosines after them. Interleave them: sine, cosine, sine, cosine.",
            {ZEROS: f"encoding = np.concatenate([{EVEN}, {ODD}], axis=-1)", BOTH: ""},
            "tensorflow/text#1122, tatp22/multidim-positional-encoding#20, tensorflow/tensor2tensor#1925",
        ),
        Wrong(
            "positions-halves-cosine-first",
            "You put all cosines first and all sines after them. Interleave them: sine, cosine, sine, cosine.",
            {ZEROS: f"encoding = np.concatenate([{ODD}, {EVEN}], axis=-1)", BOTH: ""},
            "tensorflow/tensor2tensor#391",
        ),
        Wrong(
            "positions-sines-only",
            "All your features are sines. Every second one must be the cosine of the same angle.",
            {COSINES: COSINES.replace("np.cos", "np.sin")},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-angles-only",
            "You return the angles themselves. Take their sines and cosines.",
            {BOTH: "encoding = angles"},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-from-one",
            "You count the positions from 1. The first one is position 0, with sines of 0 and cosines of 1.",
            {ANGLES: ANGLES.replace("np.arange(positions)[", "np.arange(1, positions + 1)[")},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-degrees",
            "You treat the angles as degrees. They are already radians, which NumPy's sine takes.",
            {ANGLES: ANGLES + "\n    angles = np.deg2rad(angles)"},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-over-batch",
            "You put the axis of size 1 after the positions, (P, 1, d). Added to embeddings, the positions would run over the batch.",
            {LAST: "return encoding[:, None]"},
            "cmu-l3/anlp-fall2025-code#1, songyangco/GETNext#2, NeuracoreAI/neuracore#154",
        ),
        Wrong(
            "no-batch-axis",
            "Your table has no axis for the batch. Return (1, P, d).",
            {LAST: "return encoding"},
        ),
        Wrong(
            "table-of-a-hundred",
            "Your table ends at position 100. Make it for as many positions as the argument says.",
            {
                ANGLES: ANGLES.replace("np.arange(positions)", "np.arange(100)"),
                ZEROS: ZEROS.replace("positions", "100"),
                LAST: "return encoding[None, :positions]",
            },
        ),
        Wrong(
            "rows-for-columns",
            "You put sines into every second row, and cosines into the others. Rows are positions; the features are "
            "columns, the last axis.",
            {
                BOTH: "encoding[0::2] = np.sin(angles[0::2])\n    encoding[1::2] = np.cos(angles[1::2])",
            },
        ),
        Wrong(
            "pairs-halved-twice",
            "You pass the numbers of the pairs to `get_angles`, and it halves them once more. It takes the features.",
            {ANGLES: ANGLES.replace("np.arange(d)[None, :]", "np.arange(d)[None, :] // 2")},
        ),
        Wrong(
            "cosine-of-sine",
            "You replace all angles by their sines, and then take cosines of these. Keep the angles until both are made.",
            {BOTH: "encoding = np.sin(angles)\n    encoding[:, 1::2] = np.cos(encoding[:, 1::2])"},
        ),
        Wrong(
            "width-is-positions",
            "You pass the number of positions to `get_angles` as its `d`. That is the number of features.",
            {ANGLES: ANGLES.replace(", d)", ", positions)")},
        ),
    ),
)
