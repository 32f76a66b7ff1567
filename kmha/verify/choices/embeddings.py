"""Design choices of embeddings and positional encodings."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step, Trial
from kmha.verify.chains.embedding import rotation, turned
from kmha.verify.choices.attention import BASES
from kmha.verify.choices.entry import register


def _takes_vectors(trial: Trial) -> bool:
    return "vectors" in trial.more


def _takes_ids(trial: Trial) -> bool:
    return not _takes_vectors(trial)


register("unscaled", "scale", "embeddings without a factor √d", _takes_ids, factor=lambda state, right: 1.0)
register(
    "scaled-vectors",
    "scale",
    "vectors multiplied by √d before the positions are added",
    _takes_vectors,
    factor=lambda state, right: math.sqrt(state["table"].shape[-1]),
)


def _has_sines(trial: Trial) -> bool:
    return "positions/embeddings" not in trial.weights


def _halves(of: Callable[[np.ndarray, int], np.ndarray]) -> Change:
    """Return a change to sines before cosines, with exponents `of(i, d/2)` for the pairs i."""

    def change(state: State, right: Step) -> Any:
        half = state["table"].shape[-1] // 2
        angles = state["places"][:, None] / state["base"] ** of(np.arange(half), half)
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)

    return change


register(
    "sines-first",
    "encoding",
    "all sines before all cosines",
    _has_sines,
    encoded=_halves(lambda i, half: i / half),
)
register(
    "sines-first-to-base",
    "encoding",
    "all sines before all cosines, with wavelengths up to 2π · 10000",
    _has_sines,
    encoded=_halves(lambda i, half: i / max(half - 1, 1)),
)


def _from_row(first: int, counts_padding: bool) -> Change:
    """Return a change to trained positions from the row `first` on. If padding is not counted, it gets the row before.

    BART counts padding. RoBERTa, where padding is token 1, and OPT do not.
    """

    def change(state: State, right: Step) -> Any:
        ids, table = state["ids"], state["trial"].weights["positions/embeddings"]
        real = np.ones_like(ids) if counts_padding else (ids != state["trial"].more["pad_id"]).astype(int)
        return table[np.cumsum(real, axis=-1) * real + first - 1]

    return change


# If all tokens are counted, to begin with row 1 is a mistake: at the maximum length, there is no last row.
for _first, _counts_padding in ((1, False), (2, False), (2, True)):
    register(
        f"learned-positions-from-{_first}{'' if _counts_padding else '-without-padding'}",
        "encoding",
        f"learned positions from row {_first} of the table on{'' if _counts_padding else ', without counting padding'}",
        lambda trial: _takes_ids(trial) and not _has_sines(trial) and bool(trial.more.get("counts_padding")),
        encoded=_from_row(_first, _counts_padding),
    )


register(
    "no-positions",
    "sum",
    "tokens alone, without positions",
    lambda trial: _takes_ids(trial) and _has_sines(trial) and not trial.more.get("says_positions", True),
    added=lambda state, right: state["embedded"],
)
register(
    "positions-alone",
    "sum",
    "the positions alone",
    _takes_vectors,
    added=lambda state, right: np.broadcast_to(state["encoded"], state["looked_up"].shape),
)


def _added_to(of: Callable[[State], np.ndarray]) -> Change:
    """Return a change that adds positions / √d. With a table of other numbers, learned positions give the same."""
    return lambda state, right: of(state) + state["encoded"] / math.sqrt(state["table"].shape[-1])


register(
    "positions-alone-divided",
    "sum",
    "the learned positions alone, multiplied by 1/√d",
    lambda trial: _takes_vectors(trial) and not _has_sines(trial),
    added=_added_to(lambda state: np.zeros_like(state["looked_up"])),
)
register(
    "learned-positions-divided",
    "sum",
    "learned positions, multiplied by 1/√d",
    lambda trial: not _has_sines(trial),
    added=_added_to(lambda state: state["embedded"]),
)


def _states(base: float) -> Callable[[Trial], bool]:
    return lambda trial: _takes_vectors(trial) and base in trial.more.get("bases", ())


def _turned_in(interleaved: bool) -> Change:
    return lambda state, right: turned(state["looked_up"], *rotation(state["angles"]), interleaved)


def _with_base(base: float) -> Change:
    return lambda state, right: base


for _interleaved, _says in ((False, "in halves"), (True, "in pairs")):
    _id = f"rotates-{'interleaved' if _interleaved else 'half'}"
    register(
        _id, "sum", f"vectors turned by rotary positions ({_says})", _takes_vectors, added=_turned_in(_interleaved)
    )
    for _base in BASES:
        register(
            f"{_id}-base-{_base:.0f}",
            "sum",
            f"vectors turned by rotary positions ({_says}, with a base of {_base:,.0f})",
            _states(_base),
            base=_with_base(_base),
            added=_turned_in(_interleaved),
        )


def _normalized(epsilon: float) -> Change:
    def change(state: State, right: Step) -> Any:
        x, weights = right(state), state["trial"].weights
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
        return normal * weights.get("extra1/gamma", 1.0) + weights.get("extra1/beta", 0.0)

    return change


for _epsilon in (1e-5, 1e-12, 1e-6, 1e-3):
    register(
        f"normalized-{_epsilon:.0e}".replace("e-0", "e-"),
        "normalization of the sum",
        f"a normalization of the sum, with an epsilon of {_epsilon:g}",
        lambda trial: "extra1/gamma" in trial.weights,
        normalized=_normalized(_epsilon),
    )
