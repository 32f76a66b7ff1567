"""The embedding of token ids with positions, as a chain of named steps (Vaswani et al. 2017, sections 3.4 and 3.5).

| step | result |
| --- | --- |
| `ids` | token ids, (B, T) |
| `table` | the vectors of all tokens, (V, d) |
| `looked_up` | the vectors of the ids, (B, T, d) |
| `factor` | √d |
| `embedded` | `looked_up` · √d, plus the vector of the first segment, if there is a table of segments |
| `places` | the positions 0, 1, …, (T,) |
| `base` | 10000 |
| `exponents` | 2i / d, the same for features 2i and 2i + 1, (d,) |
| `angles` | position / base^exponent, (T, d) |
| `encoded` | sines of the angles at even features, cosines at odd features, (T, d), or rows of a trained table |
| `added` | `embedded` + `encoded` |
| `normalized` | `added`. A design choice may normalize it |
| `finished` | `normalized`, which is also stored under "output" |
| `untouched` | whether the inputs are still as they were |

A trial has the ids in `more["ids"]` and the id of padding in `more["pad_id"]`. Only the shape of its `query` matters,
which is the output's shape. The only weight of the paper's embedding is "embedding/embeddings", (V, d). Trained
positions are "positions/embeddings", (L, d) with L ≥ T, and a table of segments is "segments/embeddings".

A positional encoding alone takes vectors, `more["vectors"]`, (B, T, d), instead of `looked_up`, with the factor 1.
"""

import math

import numpy as np

from kmha.verify.chains.attention import CHAINS, State, Step


def interleaved(angles: np.ndarray) -> np.ndarray:
    """Return the sines of the even features' angles and the cosines of the odd features' angles, interleaved."""
    even = np.arange(angles.shape[-1]) % 2 == 0
    return np.where(even, np.sin(angles), np.cos(angles))


def pairs(array: np.ndarray, interleaved: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second features of all pairs, each (…, d/2)."""
    half = array.shape[-1] // 2
    return (array[..., 0::2], array[..., 1::2]) if interleaved else (array[..., :half], array[..., half:])


def of_pairs(first: np.ndarray, second: np.ndarray, interleaved: bool) -> np.ndarray:
    """Return (…, d) from the first and the second features of all pairs."""
    if interleaved:
        return np.stack([first, second], -1).reshape(*first.shape[:-1], -1)
    return np.concatenate([first, second], -1)


def turned(array: np.ndarray, cosine: np.ndarray, sine: np.ndarray, interleaved: bool) -> np.ndarray:
    """Return (…, P, O) with each pair of features turned by angles whose cosines and sines are (P, O/2)."""
    first, second = pairs(array, interleaved)
    return of_pairs(first * cosine - second * sine, first * sine + second * cosine, interleaved)


def rotation(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines of each pair's angle, (T, d/2). `angles` has each angle twice."""
    return np.cos(angles[..., 0::2]), np.sin(angles[..., 0::2])


def _looked_up(state: State) -> np.ndarray:
    vectors = state["trial"].more.get("vectors")
    return state["table"][state["ids"]] if vectors is None else vectors


def _embedded(state: State) -> np.ndarray:
    """Return the scaled vectors of the tokens. The first segment's vector is added, if any."""
    segments = state["trial"].weights.get("segments/embeddings", np.zeros((1, 1)))
    return state["looked_up"] * state["factor"] + segments[0]


def _encoded(state: State) -> np.ndarray:
    """Return the sines and cosines, or the rows of a trained table."""
    weights = state["trial"].weights
    if "positions/embeddings" not in weights:
        return interleaved(state["angles"])
    return weights["positions/embeddings"][: state["ids"].shape[-1]]


def _finished(state: State) -> np.ndarray:
    """Store "output" itself, as a block does, because changes of the attention's "output" must not apply here."""
    state["output"] = state["normalized"]
    return state["normalized"]


EMBEDDING: dict[str, Step] = {
    "ids": lambda state: np.asarray(state["trial"].more["ids"]),
    "table": lambda state: state["trial"].weights["embedding/embeddings"],
    "looked_up": _looked_up,
    "factor": lambda state: 1.0 if "vectors" in state["trial"].more else math.sqrt(state["table"].shape[-1]),
    "embedded": _embedded,
    "places": lambda state: np.arange(state["ids"].shape[-1], dtype=float),
    "base": lambda state: 10000.0,
    "exponents": lambda state: np.arange(state["table"].shape[-1]) // 2 * 2 / state["table"].shape[-1],
    "angles": lambda state: state["places"][..., None] / state["base"] ** state["exponents"],
    "encoded": _encoded,
    "added": lambda state: state["embedded"] + state["encoded"],
    "normalized": lambda state: state["added"],
    "finished": _finished,
    "untouched": lambda state: True,
}

NAME = "embedding"
CHAINS[NAME] = EMBEDDING
