"""What is checked of `masks_from_ids`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PADDING = "padding = (ids != 0)[:, None, :]"
LOOK = "look_ahead = np.tril(np.ones((positions, positions), bool))"
RETURN = "return padding, look_ahead, padding & look_ahead"


def draw(rng):
    """Sentences of different lengths, padded at the end."""
    batch, positions = sizes(rng, 2, least=3, most=8)
    ids = rng.integers(1, 50, size=(batch, positions))
    lengths = rng.integers(1, positions + 1, size=batch)
    lengths[0] = max(positions - 2, 1)
    ids[np.arange(positions) >= lengths[:, None]] = 0
    return {"ids": ids}


def draw_first(rng):
    """The same, padded at the beginning."""
    return {"ids": draw(rng)["ids"][:, ::-1].copy()}


EXERCISE = Exercise(
    title="Padding, look-ahead, and both",
    question="Which masks do encoder and decoder use, and how do two become one? (seed 003, on masking)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=2, values=4),
        Check("edge", "sentences that are padded at the beginning", 2, draw_first),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "mask-inverted",
            "The masks are the other way round: True stands where attention is hidden. That is another convention.",
            {
                PADDING: PADDING.replace("!=", "=="),
                LOOK: "look_ahead = ~np.tril(np.ones((positions, positions), bool))",
                RETURN: RETURN.replace("&", "|"),
            },
            "TensorFlow's Transformer tutorial of old, PyTorch's `attn_mask`",
        ),
        Wrong(
            "causal-inverted",
            "The look-ahead mask alone is the other way round: it is True where attention is hidden, while the padding "
            "mask is True where it is allowed.",
            {LOOK: "look_ahead = ~np.tril(np.ones((positions, positions), bool))"},
            "np.triu(np.ones((T, T)), 1), as it is where 1 means hidden",
        ),
        Wrong(
            "causal-strict",
            "The look-ahead mask hides the position itself: s < t in place of s ≤ t.",
            {LOOK: LOOK.replace("bool))", "bool), -1)")},
            "pytorch/pytorch#143287",
        ),
        Wrong(
            "causal-one-ahead",
            "The look-ahead mask lets each position see the next one: s ≤ t + 1 in place of s ≤ t.",
            {LOOK: LOOK.replace("bool))", "bool), 1)")},
            "asked in pytorch/tutorials#2250",
        ),
        Wrong(
            "causal-reversed",
            "The look-ahead mask is reversed: the past is hidden, and the future is attended.",
            {LOOK: LOOK.replace("tril", "triu")},
            "pytorch/examples#649",
        ),
        Wrong(
            "masks-either",
            "One mask that allows is enough in this answer: they are combined by OR, and both must allow.",
            {RETURN: RETURN.replace("&", "|")},
            "proposed in jadore801120/attention-is-all-you-need-pytorch#217",
        ),
        Wrong(
            "padding-on-queries",
            "In both together the padding hides rows, the queries, in place of columns, the keys.",
            {RETURN: RETURN.replace("padding & look", "np.swapaxes(padding, 1, 2) & look")},
            "hyunwoongko/transformer#40",
        ),
        Wrong(
            "padding-on-both",
            "In both together the padding hides the queries' rows as well: rows with nothing to attend to, for "
            "nothing.",
            {RETURN: RETURN.replace("padding & look", "padding & np.swapaxes(padding, 1, 2) & look")},
        ),
        Wrong(
            "padding-taken-to-be-last",
            "The words of a sentence are counted, and taken to stand at its beginning: padding can come first.",
            {PADDING: "padding = (np.arange(positions) < (ids != 0).sum(axis=1, keepdims=True))[:, None, :]"},
            "facebookresearch/fairseq#537",
        ),
        Wrong(
            "padding-shortest-for-all",
            "What is padding in any sentence is hidden in all of them.",
            {PADDING: "padding = np.broadcast_to(np.all(ids != 0, axis=0), ids.shape)[:, None, :]"},
        ),
        Wrong(
            "padding-ignored",
            "Both together is the look-ahead mask alone: padding is attended.",
            {RETURN: RETURN.replace("padding & look_ahead", "np.repeat(look_ahead[None], len(ids), axis=0)")},
            "speechbrain/speechbrain#1107",
        ),
        Wrong(
            "mask-as-numbers",
            "The masks hold numbers: `~` and `&` do something else with them, or fail. They are to be boolean.",
            {RETURN: "return 1.0 * padding, 1.0 * look_ahead, 1.0 * (padding & look_ahead)"},
        ),
    ),
)
