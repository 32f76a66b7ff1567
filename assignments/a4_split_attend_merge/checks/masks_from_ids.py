"""Checks of `masks_from_ids`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PADDING = "padding = (ids != 0)[:, None, :]"
LOOK = "look_ahead = np.tril(np.ones((positions, positions), bool))"
RETURN = "return padding, look_ahead, padding & look_ahead"


def draw(rng, most=8):
    """Draw sentences of different lengths, padded at the end."""
    batch, positions = sizes(rng, 2, least=3, most=most)
    ids = rng.integers(1, 50, size=(batch, positions))
    lengths = rng.integers(1, positions + 1, size=batch)
    lengths[0] = max(positions - 2, 1)
    ids[np.arange(positions) >= lengths[:, None]] = 0
    return {"ids": ids}


def draw_first(rng):
    """Draw such sentences, some of them long, padded at the beginning. One of them has no words."""
    ids = draw(rng, most=60)["ids"][:, ::-1].copy()
    ids[-1] = 0
    return {"ids": ids}


EXERCISE = Exercise(
    title="Padding, look-ahead, and both",
    question="Which masks do encoder and decoder use, and how do two masks become one? (seed 003, on masking)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=2, values=4),
        Check("edge", "sentences with padding at the beginning, and one of padding only", 2, draw_first),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "mask-inverted",
            "You made both masks True where attention is hidden. That is another convention; here True means allowed.",
            {
                PADDING: PADDING.replace("!=", "=="),
                LOOK: "look_ahead = ~np.tril(np.ones((positions, positions), bool))",
                RETURN: RETURN.replace("&", "|"),
            },
            "TensorFlow's Transformer tutorial of old, PyTorch's `attn_mask`",
        ),
        Wrong(
            "causal-inverted",
            "You inverted only the look-ahead mask: it is True where attention is hidden, while your padding mask is "
            "True where it is allowed.",
            {LOOK: "look_ahead = ~np.tril(np.ones((positions, positions), bool))"},
            "np.triu(np.ones((T, T)), 1), as it is where 1 means hidden",
        ),
        Wrong(
            "causal-strict",
            "Your look-ahead mask hides the position itself, s < t. A position may attend to itself: s ≤ t.",
            {LOOK: LOOK.replace("bool))", "bool), -1)")},
            "pytorch/pytorch#143287",
        ),
        Wrong(
            "causal-one-ahead",
            "Your look-ahead mask lets each position see the next one, s ≤ t + 1. It must end at the position itself: "
            "s ≤ t.",
            {LOOK: LOOK.replace("bool))", "bool), 1)")},
            "asked in pytorch/tutorials#2250",
        ),
        Wrong(
            "causal-reversed",
            "You reversed the look-ahead mask: it hides the past and allows the future.",
            {LOOK: LOOK.replace("tril", "triu")},
            "pytorch/examples#649",
        ),
        Wrong(
            "masks-either",
            "You combined the masks with OR, so one that allows is enough. Both must allow.",
            {RETURN: RETURN.replace("&", "|")},
            "proposed in jadore801120/attention-is-all-you-need-pytorch#217",
        ),
        Wrong(
            "padding-on-queries",
            "In the combined mask, your padding hides rows, the queries. It must hide columns, the keys.",
            {RETURN: RETURN.replace("padding & look", "np.swapaxes(padding, 1, 2) & look")},
            "hyunwoongko/transformer#40",
        ),
        Wrong(
            "padding-on-both",
            "In the combined mask, your padding also hides the rows of the queries. That only makes rows with nothing "
            "to attend to. Hide the columns alone.",
            {RETURN: RETURN.replace("padding & look", "padding & np.swapaxes(padding, 1, 2) & look")},
        ),
        Wrong(
            "padding-taken-to-be-last",
            "You counted the words of a sentence and assumed that they come first. Padding can come first too.",
            {PADDING: "padding = (np.arange(positions) < (ids != 0).sum(axis=1, keepdims=True))[:, None, :]"},
            "facebookresearch/fairseq#537",
        ),
        Wrong(
            "padding-shortest-for-all",
            "You hid a position in all sentences if it is padding in any of them. Each sentence has its own padding.",
            {PADDING: "padding = np.broadcast_to(np.all(ids != 0, axis=0), ids.shape)[:, None, :]"},
        ),
        Wrong(
            "padding-ignored",
            "Your combined mask is just the look-ahead mask, so padding is attended to. Apply both.",
            {RETURN: RETURN.replace("padding & look_ahead", "np.repeat(look_ahead[None], len(ids), axis=0)")},
            "speechbrain/speechbrain#1107",
        ),
        Wrong(
            "mask-as-numbers",
            "Your masks hold numbers. `~` and `&` do something else with those, or fail: return booleans.",
            {RETURN: "return 1.0 * padding, 1.0 * look_ahead, 1.0 * (padding & look_ahead)"},
        ),
        Wrong(
            "padding-only-shown",
            "You look for the first and the last word, and show everything of a sentence that has none. Compare each "
            "id with 0.",
            {PADDING: "padding = ((ids != 0) | (ids == 0).all(axis=1, keepdims=True))[:, None, :]"},
        ),
        Wrong(
            "padding-inverted",
            "You inverted only the padding mask: it is True at padding, while your look-ahead mask is True where "
            "attention is allowed.",
            {PADDING: PADDING.replace("!=", "==")},
        ),
        Wrong(
            "masks-inverted-and",
            "You made both masks True where attention is hidden, and combined them with AND. Here True means allowed. "
            "Of two masks that hide, one is enough, so even there AND is wrong.",
            {
                PADDING: PADDING.replace("!=", "=="),
                LOOK: "look_ahead = ~np.tril(np.ones((positions, positions), bool))",
            },
        ),
        Wrong(
            "padding-from-first-zero",
            "You hide everything from the first 0 on. Padding can come first, with the words behind it: look at each "
            "id by itself.",
            {PADDING: "padding = np.logical_and.accumulate(ids != 0, axis=1)[:, None, :]"},
        ),
        Wrong(
            "diagonal-opened",
            "In the combined mask, you let each position attend to itself, at padding too. Padding is hidden from "
            "every query, even if nothing is left to attend to.",
            {RETURN: RETURN.replace("padding & look_ahead", "padding & look_ahead | np.eye(positions, dtype=bool)")},
        ),
    ),
)
