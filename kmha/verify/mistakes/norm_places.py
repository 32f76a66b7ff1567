"""Mistakes in which normalization of a block stands where.

After the residual connections in Vaswani et al. 2017, section 3.1; before the sublayers in Xiong et al. 2020, arXiv
2002.04745.
"""

from typing import Any

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.blocks import NORMS
from kmha.verify.mistakes.entry import add

PAPER = "Vaswani et al. 2017, section 3.1"


def _place(place: str) -> Change:
    def change(state: State, right: Step) -> Any:
        if right(state) == place:
            raise ImpossibleError("that is where it should be")
        return place

    return change


for _id, _says, _source, _to in (
    (
        "norm-before",
        "The normalizations stand before the sublayers (pre-norm) in place of after the residual connections.",
        "hkproj/pytorch-transformer#14, d2l-ai/d2l-en#803",
        "before",
    ),
    (
        "norm-after",
        "The normalizations stand after the residual connections (post-norm) in place of before the sublayers.",
        "harvardnlp/annotated-transformer#13",
        "after",
    ),
    ("norm-both", "There is a normalization before each sublayer and after its residual connection.", PAPER, "both"),
    ("norm-never", "All normalizations are missing.", PAPER, "never"),
    (
        "norm-inside-residual",
        "Only what a sublayer gives is normalized, before the residual connection: x + norm(sublayer(x)).",
        "keitakurita/Practical_NLP_in_PyTorch#1, harvardnlp/annotated-transformer#110",
        "inside",
    ),
    (
        "norm-replaces-input",
        "x is overwritten by its normalization before the sublayer, so that the residual connection adds the latter.",
        "OpenNMT/OpenNMT-py#1375",
        "replaced",
    ),
):
    add(_id, _says, "the order of sublayer, residual connection and normalization", _source, norm_place=_place(_to))

add(
    "norm-twice",
    "Every normalization is applied twice.",
    "how often the normalizations are called",
    PAPER,
    normalize=lambda state, right: lambda x, gamma, beta: right(state)(right(state)(x, gamma, beta), gamma, beta),
)
add(
    "norm-last-twice",
    "What the block gives is normalized once more by the last normalization.",
    "what stands after the last residual connection",
    "harvardnlp/annotated-transformer#1",
    after_last=lambda state, right: state["last_norm"](right(state)),
)

WHICH = "which normalization is called where"
SHARED = "bentrevett/pytorch-seq2seq#100, allenai/OLMo#222, henry9zhr/QANet-pytorch#7"
PLACES = {"norm1": (0, "self-attention"), "norm2": (1, "second attention"), "last_norm": (2, "feed-forward network")}


def _taken(*taken: tuple[str, str]) -> Change:
    """A change of `block_weights`: for each (a, b), the norm a gets the weights of b."""

    def change(state: State, right: Step) -> Any:
        weights, layers = right(state), NORMS[state["trial"].chain]
        new = {}
        for one, other in taken:
            for part in ("gamma", "beta"):
                new[f"{layers[PLACES[one][0]]}/{part}"] = weights[f"{layers[PLACES[other][0]]}/{part}"]
        return {**weights, **new}

    return change


def _and_norm2(*places: str) -> dict[str, Change]:
    """So that a mistake of the second attention's normalization is one of decoders only."""
    return {"norm2": lambda state, right: right(state)} if "norm2" in places else {}


for _step, (_, _which) in PLACES.items():
    _id = {"norm1": "attention", "norm2": "cross", "last_norm": "feed-forward"}[_step]
    add(
        f"norm-missing-{_id}",
        f"The normalization of the {_which} is missing.",
        WHICH,
        PAPER,
        **{_step: lambda state, right: lambda x: x},
    )
    for _other, (_, _whose) in PLACES.items():
        if _other == _step:
            continue
        add(
            f"norm-shared-{_step}-{_other}".replace("_norm", "").replace("norm1", "1").replace("norm2", "2"),
            f"The normalization of the {_which} is that of the {_whose}: they share their weights.",
            WHICH,
            SHARED,
            block_weights=_taken((_step, _other)),
            **_and_norm2(_step, _other),
        )
for _one, _other in (("norm1", "norm2"), ("norm1", "last_norm"), ("norm2", "last_norm")):
    add(
        f"norm-swapped-{_one}-{_other}".replace("_norm", "").replace("norm1", "1").replace("norm2", "2"),
        f"The normalizations of the {PLACES[_one][1]} and of the {PLACES[_other][1]} are exchanged.",
        WHICH,
        SHARED,
        block_weights=_taken((_one, _other), (_other, _one)),
        **_and_norm2(_one, _other),
    )
