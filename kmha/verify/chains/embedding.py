"""Token ids to vectors with positions, as a chain of named steps (Vaswani et al. 2017, sections 3.4 and 3.5).

| step | what it makes |
| --- | --- |
| `ids` | token ids: (B, T) |
| `table` | the vectors of all tokens: (V, d) |
| `looked_up` | those of the ids: (B, T, d) |
| `factor` | √d |
| `embedded` | the vectors times it |
| `places` | the positions 0, 1, …: (T,) |
| `base` | 10000 |
| `exponents` | 2i / d, the same for features 2i and 2i + 1: (d,) |
| `angles` | place / base^exponent: (T, d) |
| `encoded` | their sines at even features, their cosines at odd ones |
| `added` | `embedded` + `encoded` |
| `finished` | the same; it is also what is found under "output" |
| `untouched` | whether the inputs are as they were |

A trial gives the ids in `more["ids"]`; its `query` has the output's shape and says no more. The one weight is
"embedding/embeddings", (V, d). `more["pad_id"]` is the token id of padding.
"""

import math

import numpy as np

from kmha.verify.chains.attention import CHAINS, State, Step


def interleaved(angles: np.ndarray) -> np.ndarray:
    """Sines of the even features' angles, cosines of the odd ones'."""
    even = np.arange(angles.shape[-1]) % 2 == 0
    return np.where(even, np.sin(angles), np.cos(angles))


def _finished(state: State) -> np.ndarray:
    """As in a block, where a step "output" would be changed by the attention's mistakes of that name."""
    state["output"] = state["added"]
    return state["added"]


EMBEDDING: dict[str, Step] = {
    "ids": lambda state: np.asarray(state["trial"].more["ids"]),
    "table": lambda state: state["trial"].weights["embedding/embeddings"],
    "looked_up": lambda state: state["table"][state["ids"]],
    "factor": lambda state: math.sqrt(state["table"].shape[-1]),
    "embedded": lambda state: state["looked_up"] * state["factor"],
    "places": lambda state: np.arange(state["ids"].shape[-1], dtype=float),
    "base": lambda state: 10000.0,
    "exponents": lambda state: np.arange(state["table"].shape[-1]) // 2 * 2 / state["table"].shape[-1],
    "angles": lambda state: state["places"][..., None] / state["base"] ** state["exponents"],
    "encoded": lambda state: interleaved(state["angles"]),
    "added": lambda state: state["embedded"] + state["encoded"],
    "finished": _finished,
    "untouched": lambda state: True,
}

NAME = "embedding"
CHAINS[NAME] = EMBEDDING
