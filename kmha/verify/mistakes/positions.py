"""Mistakes in the sinusoidal positions, sin and cos of pos / 10000^(2i/d) (Vaswani et al. 2017, section 3.5)."""

import math
from collections.abc import Callable

import numpy as np

from kmha.verify.chains.attention import Change, State
from kmha.verify.chains.embedding import interleaved
from kmha.verify.mistakes.embeddings import at_padding
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.5"

for _id, _says, _sum in (
    ("missing", "You did not add the positions. Add them to the embedding.", lambda embedded, encoded: embedded),
    ("twice", "You added the positions twice. Add them once.", lambda embedded, encoded: embedded + 2 * encoded),
    ("multiplied", "You multiplied the embedding by the positions. Add them.", lambda one, other: one * other),
    ("subtracted", "You subtracted the positions. Add them.", lambda embedded, encoded: embedded - encoded),
    (
        "alone",
        "You returned the positions alone, so the tokens are lost. Add the positions to the embedding.",
        lambda embedded, encoded: embedded * 0 + encoded,
    ),
):
    register(
        f"positions-{_id}",
        _says,
        "the line that adds the positions",
        PAPER,
        added=lambda state, right, of=_sum: of(state["embedded"], state["encoded"]),
    )


def _halves(first: Callable, second: Callable) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that applies `first` to all pairs' angles, then `second`, and concatenates the results."""

    def halves(angles: np.ndarray) -> np.ndarray:
        pairs = angles[..., 0::2]
        return np.concatenate([first(pairs), second(pairs)], axis=-1)[..., : angles.shape[-1]]

    return halves


def _even(angles: np.ndarray) -> np.ndarray:
    return np.arange(angles.shape[-1]) % 2 == 0


ENCODED = "the lines that compute the sines and cosines"
for _id, _says, _source, _of in (
    (
        "sine-cosine-swapped",
        "You put cosines at even features and sines at odd ones. Put sines at even features and cosines at odd ones.",
        PAPER,
        lambda angles: np.where(_even(angles), np.cos(angles), np.sin(angles)),
    ),
    (
        "halves",
        "You put the sines before the cosines. Interleave them: sines at even features, cosines at odd ones.",
        "tensorflow/text#1122, tatp22/multidim-positional-encoding#20, tensorflow/tensor2tensor#1925",
        _halves(np.sin, np.cos),
    ),
    (
        "halves-cosine-first",
        "You put the cosines before the sines. Interleave them: sines at even features, cosines at odd ones.",
        "tensorflow/tensor2tensor#391",
        _halves(np.cos, np.sin),
    ),
    ("sines-only", "You used sines for all features. Use cosines at odd ones.", PAPER, np.sin),
    ("cosines-only", "You used cosines for all features. Use sines at even ones.", PAPER, np.cos),
    ("angles-only", "You added the angles themselves. Add their sines and cosines.", PAPER, lambda angles: angles),
    ("degrees", "You took the angles as degrees. They are radians.", PAPER, lambda x: interleaved(np.radians(x))),
):
    register(f"positions-{_id}", _says, ENCODED, _source, encoded=lambda state, right, of=_of: of(state["angles"]))
register(
    "positions-cosine-negative",
    "You gave the cosines the wrong sign. Add cos, not -cos.",
    ENCODED,
    PAPER,
    encoded=lambda state, right: right(state) * np.where(_even(state["angles"]), 1.0, -1.0),
)


def _exponents(of: Callable[[np.ndarray, int], np.ndarray]) -> Change:
    """Return a change of the exponents to `of(j, d)`, a function of the features' indices j and of d."""
    return lambda state, right: of(np.arange(state["table"].shape[-1]), state["table"].shape[-1])


KYUBYONG, SAM = "Kyubyong/transformer#38", "SamLynnEvans/Transformer#25"
for _id, _says, _source, _exponent in (
    (
        "per-feature",
        "You used the exponent j/d for each feature j. Use 2i/d for both features of a pair, with i = j // 2.",
        "maxjcohen/transformer#62",
        lambda j, d: j / d,
    ),
    (
        "doubled-per-feature",
        "You used the exponent 2j/d, where j already stands for 2i or 2i + 1. Use 2i/d, with i = j // 2.",
        f"jadore801120/attention-is-all-you-need-pytorch#32, shenweichen/DeepCTR#379, {KYUBYONG}, {SAM}",
        lambda j, d: 2 * j / d,
    ),
    ("doubled", "You used the exponent 4i/d, or divided by d/2. Use 2i/d.", SAM, lambda j, d: 4 * (j // 2) / d),
    ("halved", "You used i/d, or a base of 100. Use 2i/d with the base 10,000.", PAPER, lambda j, d: (j // 2) / d),
    (
        "cosine-next",
        "You used the exponent 2(i + 1)/d for the cosines. Use 2i/d, as for the sines.",
        "YutaroOgawa/pytorch_advanced#79",
        lambda j, d: (j + j % 2) / d,
    ),
    (
        "from-one",
        "You counted the pairs from 1, which gives the exponent 2(i + 1)/d. Count them from 0.",
        PAPER,
        lambda j, d: (j // 2 * 2 + 2) / d,
    ),
    ("width-minus-one", "You used the exponent 2i/(d - 1). Use 2i/d.", PAPER, lambda j, d: j // 2 * 2 / (d - 1)),
    (
        "steps-minus-one",
        "You used the exponent i/(d/2 - 1), which ends at 1. Use i/(d/2).",
        "tensorflow/tensor2tensor#1423",
        lambda j, d: (j // 2) / (d / 2 - 1),
    ),
    (
        "positive",
        "You multiplied the positions by the power of the base. Divide them by it.",
        PAPER,
        lambda j, d: -(j // 2 * 2) / d,
    ),
    ("missing", "You used the exponent 1 for all features. Use 2i/d.", PAPER, lambda j, d: np.ones(d)),
    (
        "reversed",
        "You reversed the frequencies, so the lowest comes first. Start with the highest: the exponent is 2i/d.",
        PAPER,
        lambda j, d: (d - 1) // 2 * 2 / d - j // 2 * 2 / d,
    ),
    (
        "rounded",
        "You rounded the exponent's factor: -log(10000) / d // 2 is a whole number. Divide without rounding.",
        "zju3dv/LoFTR#41",
        lambda j, d: -(j // 2 * 2) * (-math.log(10000.0) / d // 2) / math.log(10000.0),
    ),
    (
        "divided-in-logarithm",
        "You divided inside of the logarithm: log(10000 / d). Divide the logarithm: log(10000) / d.",
        PAPER,
        lambda j, d: (j // 2 * 2) * math.log(10000.0 / d) / math.log(10000.0),
    ),
):
    register(f"positions-exponent-{_id}", _says, "the exponent of the angles", _source, exponents=_exponents(_exponent))

for _base, _source in ((1000.0, "maxjcohen/transformer#62"), (100000.0, PAPER)):
    register(
        f"positions-base-{_base:.0f}",
        f"You used {_base:,.0f} as the base of the angles. Use 10,000.",
        "the base that is raised to the power 2i/d",
        _source,
        base=lambda state, right, base=_base: base,
    )


def _length(state: State) -> int:
    return int(state["ids"].shape[-1])


for _id, _says, _source, _change in (
    ("from-one", "You counted the positions from 1. Count them from 0.", PAPER, lambda state, right: right(state) + 1),
    (
        "reversed",
        "You counted from the end. Count from the start.",
        PAPER,
        lambda state, right: right(state)[..., ::-1],
    ),
    (
        "over-batch",
        "You counted the positions along the batch. Count them along the sequence.",
        "cmu-l3/anlp-fall2025-code#1, songyangco/GETNext#2, NeuracoreAI/neuracore#154",
        lambda state, right: np.arange(state["ids"].shape[0], dtype=float)[:, None],
    ),
    (
        "one-for-all",
        "You gave all tokens the encoding at index T, the length. Slice the first T encodings.",
        "DiffPoseTalk/DiffPoseTalk#20",
        lambda state, right: np.full(_length(state), float(_length(state))),
    ),
    (
        "first-for-all",
        "You gave all tokens the encoding of position 0. Give each token the encoding of its own position.",
        PAPER,
        lambda state, right: right(state) * 0,
    ),
    (
        "fraction",
        "You divided the positions by the length. Use the positions themselves: 0, 1, 2 and so on.",
        PAPER,
        lambda state, right: right(state) / _length(state),
    ),
    (
        "of-ids",
        "You used the token ids as positions. Count the positions 0, 1, 2 and so on.",
        PAPER,
        lambda state, right: state["ids"].astype(float),
    ),
):
    register(f"positions-{_id}", _says, "the line that counts the positions", _source, places=_change)


register(
    "positions-not-at-padding",
    "You added no positions at padding. Add them to every token.",
    "the line that adds the positions",
    PAPER,
    encoded=lambda state, right: np.where(at_padding(state), 0.0, right(state)),
)
