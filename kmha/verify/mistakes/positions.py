"""Mistakes in the sinusoidal positions, sin and cos of pos / 10000^(2i/d) (Vaswani et al. 2017, section 3.5)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step
from kmha.verify.chains.embedding import interleaved
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.5"

for _id, _says, _source, _of in (
    ("missing", "No positions are added.", PAPER, lambda embedded, encoded: embedded),
    ("twice", "The positions are added twice.", PAPER, lambda embedded, encoded: embedded + 2 * encoded),
    ("multiplied", "The positions are multiplied in place of added.", PAPER, lambda one, other: one * other),
    ("subtracted", "The positions are subtracted in place of added.", PAPER, lambda one, other: one - other),
    (
        "alone",
        "The positions stand in the place of the embedding: the tokens are lost.",
        PAPER,
        lambda embedded, encoded: embedded * 0 + encoded,
    ),
):
    register(
        f"positions-{_id}",
        _says,
        "the line that adds the positions",
        _source,
        added=lambda state, right, of=_of: of(state["embedded"], state["encoded"]),
    )


def _halves(first: Callable, second: Callable) -> Change:
    """One function of all pairs' angles, then the other."""

    def change(state: State, right: Step) -> Any:
        angles = state["angles"][..., 0::2]
        both = np.concatenate([first(angles), second(angles)], axis=-1)
        return both[..., : state["angles"].shape[-1]]

    return change


def _swapped(state: State, right: Step) -> Any:
    even = np.arange(state["angles"].shape[-1]) % 2 == 0
    return np.where(even, np.cos(state["angles"]), np.sin(state["angles"]))


for _id, _says, _source, _change in (
    ("sine-cosine-swapped", "Cosines stand at even features and sines at odd ones.", PAPER, _swapped),
    (
        "halves",
        "The sines fill the first half of the features and the cosines the second: they are not interleaved.",
        "tensorflow/text#1122, tatp22/multidim-positional-encoding#20, tensorflow/tensor2tensor#1925",
        _halves(np.sin, np.cos),
    ),
    (
        "halves-cosine-first",
        "The cosines fill the first half of the features and the sines the second.",
        "tensorflow/tensor2tensor#391",
        _halves(np.cos, np.sin),
    ),
    ("sines-only", "All features are sines.", PAPER, lambda state, right: np.sin(state["angles"])),
    ("cosines-only", "All features are cosines.", PAPER, lambda state, right: np.cos(state["angles"])),
    ("angles-only", "The angles are added without sine and cosine.", PAPER, lambda state, right: state["angles"]),
    (
        "cosine-negative",
        "The cosines have the wrong sign.",
        PAPER,
        lambda state, right: right(state) * np.where(np.arange(state["angles"].shape[-1]) % 2 == 0, 1.0, -1.0),
    ),
    (
        "degrees",
        "The angles are taken for degrees.",
        PAPER,
        lambda state, right: interleaved(np.radians(state["angles"])),
    ),
):
    register(f"positions-{_id}", _says, "where the sines and cosines are filled in", _source, encoded=_change)


def _exponents(of: Callable[[np.ndarray, int], np.ndarray]) -> Change:
    """`of` the features' numbers j and d."""

    def change(state: State, right: Step) -> Any:
        width = state["table"].shape[-1]
        return of(np.arange(width), width)

    return change


for _id, _says, _source, _of in (
    (
        "per-feature",
        "The exponent is j/d for each feature j: sine and cosine of a pair have different frequencies.",
        "maxjcohen/transformer#62",
        lambda j, d: j / d,
    ),
    (
        "doubled-per-feature",
        "The exponent is 2j/d for each feature j, where j stands for 2i or 2i + 1 already.",
        "jadore801120/attention-is-all-you-need-pytorch#32, shenweichen/DeepCTR#379, Kyubyong/transformer#38, "
        "SamLynnEvans/Transformer#25",
        lambda j, d: 2 * j / d,
    ),
    (
        "doubled",
        "The exponent is 4i/d: 2i where i is even already, or d/2 in place of d.",
        "SamLynnEvans/Transformer#25",
        lambda j, d: 4 * (j // 2) / d,
    ),
    (
        "halved",
        "The exponent is i/d in place of 2i/d, or the base is 100 in place of 10,000.",
        PAPER,
        lambda j, d: (j // 2) / d,
    ),
    (
        "cosine-next",
        "The exponent of the cosines is off by two: 2(i + 1)/d in place of 2i/d.",
        "YutaroOgawa/pytorch_advanced#79",
        lambda j, d: (j + j % 2) / d,
    ),
    (
        "from-one",
        "The pairs are counted from 1: the exponent is 2(i + 1)/d in place of 2i/d.",
        PAPER,
        lambda j, d: (j // 2 * 2 + 2) / d,
    ),
    (
        "width-minus-one",
        "The exponent is 2i/(d - 1) in place of 2i/d.",
        PAPER,
        lambda j, d: j // 2 * 2 / (d - 1),
    ),
    (
        "steps-minus-one",
        "The exponent is i/(d/2 - 1) in place of i/(d/2): it ends at 1.",
        "tensorflow/tensor2tensor#1423",
        lambda j, d: (j // 2) / (d / 2 - 1),
    ),
    (
        "positive",
        "The positions are multiplied by the power in place of divided by it.",
        PAPER,
        lambda j, d: -(j // 2 * 2) / d,
    ),
    (
        "missing",
        "The exponent is 1 everywhere: all features turn equally fast.",
        PAPER,
        lambda j, d: np.ones(d),
    ),
    (
        "reversed",
        "The frequencies run the other way: the slowest first.",
        PAPER,
        lambda j, d: (d - 1) // 2 * 2 / d - j // 2 * 2 / d,
    ),
    (
        "rounded",
        "The exponent's factor is rounded: -log(10000) / d // 2 is a whole number, so the frequencies fall too fast.",
        "zju3dv/LoFTR#41",
        lambda j, d: -(j // 2 * 2) * (-math.log(10000.0) / d // 2) / math.log(10000.0),
    ),
):
    register(f"positions-exponent-{_id}", _says, "the exponent of the angles", _source, exponents=_exponents(_of))

for _base, _source in (
    (1000.0, "maxjcohen/transformer#62"),
    (100000.0, PAPER),
):
    register(
        f"positions-base-{_base:.0f}",
        f"The angles' base is {_base:,.0f} in place of 10,000.",
        "the number that is taken to the power of 2i/d",
        _source,
        base=lambda state, right, base=_base: base,
    )


def _over_batch(state: State, right: Step) -> Any:
    return np.arange(state["ids"].shape[0], dtype=float)[:, None]


def _length(state: State) -> int:
    return int(state["ids"].shape[-1])


for _id, _says, _source, _change in (
    ("from-one", "The positions start at 1 in place of 0.", PAPER, lambda state, right: right(state) + 1),
    ("reversed", "The positions are counted from the end.", PAPER, lambda state, right: right(state)[..., ::-1]),
    (
        "over-batch",
        "The positions run over the batch: all tokens of a sentence get the same.",
        "cmu-l3/anlp-fall2025-code#1, songyangco/GETNext#2, NeuracoreAI/neuracore#154",
        _over_batch,
    ),
    (
        "one-for-all",
        "All tokens get the encoding of one position, the one after the last: it is indexed by the length, not sliced.",
        "DiffPoseTalk/DiffPoseTalk#20",
        lambda state, right: np.full(_length(state), float(_length(state))),
    ),
    ("first-for-all", "All tokens get the encoding of position 0.", PAPER, lambda state, right: right(state) * 0),
    ("fraction", "The positions are divided by the length.", PAPER, lambda state, right: right(state) / _length(state)),
    (
        "of-ids",
        "The token ids are taken for the positions.",
        PAPER,
        lambda state, right: state["ids"].astype(float),
    ),
):
    register(f"positions-{_id}", _says, "where the positions are counted", _source, places=_change)


def _padding(state: State) -> np.ndarray:
    return (state["ids"] == state["trial"].more.get("pad_id", 0))[..., None]


register(
    "positions-not-at-padding",
    "No positions are added where the token is padding.",
    "the line that adds the positions",
    PAPER,
    encoded=lambda state, right: np.where(_padding(state), 0.0, right(state)),
)
