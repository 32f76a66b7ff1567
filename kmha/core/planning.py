"""The choice between the ways to compute attention, and their costs, without tensors."""

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

VARIABLE = "KMHA_ATTENTION_PATH"

# The paths on each backend. All give the same numbers to rounding.
PATHS = {"tensorflow": ("steps", "direct", "blocked"), "jax": ("steps", "fused"), "torch": ("steps", "fused")}

# From this length on, skipping what a causal mask or a window hides saves more than computing the scores twice costs.
SHORTEST_SKIPPED = 512

# Where nothing can be skipped, blocks take up to a fifth more time in training. Above this number of bytes of scores,
# saving memory matters more than this time.
MOST_SCORES = 2**30

# Up to this number of bytes of scores, a call outside of a graph takes the path with the fewest operations.
MOST_EAGER = 2**22

# The batch size to assume if it is unknown.
USUAL_BATCH = 8

# Number of queries in a block: HEIGHT, or TALL when training on at least LONG positions.
HEIGHT, TALL, LONG = 128, 256, 2048

# Bytes of the scores of one block. Blocks above MOST_BLOCK are halved. Blocks up to SMALL_BLOCK run two at a time.
MOST_BLOCK, SMALL_BLOCK = 2**28, 2**25


@dataclasses.dataclass(frozen=True)
class Request:
    """One call of attention, as far as it is known before tensors are computed.

    Attributes:
        batch: Batch size (B), or `None` if unknown.
        rows: Number of query positions (T), or `None` if unknown.
        columns: Number of key positions (S), or `None` if unknown.
        heads: Number of heads (H).
        backend: Keras backend: "tensorflow", "jax" or "torch".
        itemsize: Number of bytes of one score.
        causal: Position t attends only to positions s ≤ t.
        window: Position t attends only to positions s with |t - s| < window. `None` means no limit.
        dropout: The call drops scores.
        return_scores: The call returns the scores.
        training: A backward pass will follow.
        fusable: The backend has a fused kernel that gives the same numbers, see the function `fusable`.
        flash: The layer's `flash_attention`.
        eager: TensorFlow computes the call at once, outside of a graph.
    """

    batch: int | None
    rows: int | None
    columns: int | None
    heads: int
    backend: str = "tensorflow"
    itemsize: int = 4
    causal: bool = False
    window: int | None = None
    dropout: bool = False
    return_scores: bool = False
    training: bool = False
    fusable: bool = False
    flash: bool | None = None
    eager: bool = False


class PathChoice(NamedTuple):
    """A path, and the reason to take it."""

    path: str
    reason: str


class Tiling(NamedTuple):
    """The number of queries in a block, and the number of blocks to compute at the same time."""

    height: int
    parallel: int


def choose(request: Request) -> PathChoice:
    """Return the path in the first line whose condition is true. `flash_attention` comes before the environment.

    | when | path |
    | --- | --- |
    | the scores are returned | steps |
    | JAX, torch: no fused kernel gives the same numbers, or scores are dropped | steps |
    | JAX, torch: `flash_attention=True` / `False` | fused / steps |
    | JAX, torch: `KMHA_ATTENTION_PATH=steps` | steps |
    | JAX, torch, otherwise | fused |
    | `flash_attention=True` / `False` | blocked / direct |
    | `KMHA_ATTENTION_PATH` is set, for instance to `blocked:64` | that path, with 64 queries in a block |
    | T or S is unknown | direct |
    | outside of a graph, scores of up to 4 MiB | steps |
    | causal or windowed, no dropout, T ≥ 512 and S ≥ 512 | blocked |
    | the scores would take more than 1 GiB | blocked |
    | otherwise | direct |

    These thresholds come from times relative to the built-in layer, on two cores in graph mode (`kmha bench`, with the
    environment variable set to each path):

    | | direct, forward / step | blocked, forward / step |
    | --- | --- | --- |
    | causal, 8 × 256 | 0.87 / 0.83 | 0.84 / 0.84 |
    | causal, 4 × 512 | 0.85 / 0.82 | 0.73 / 0.77 |
    | causal, 2 × 1024 | 0.86 / 0.80 | 0.66 / 0.69 |
    | nothing to skip, 2 × 1024 | 0.82 / 0.81 | 0.81 / 0.93 |

    With dropout, blocks draw their random numbers a second time in the backward pass, which takes longer than skipping
    saves.

    >>> choose(Request(batch=1, rows=2048, columns=2048, heads=8, causal=True)).path
    'blocked'
    """
    if request.return_scores:
        return PathChoice("steps", "the scores are returned")
    if request.backend != "tensorflow":
        return _fused_or_steps(request)
    if request.flash is not None:
        return PathChoice("blocked" if request.flash else "direct", f"flash_attention={request.flash}")
    path, _ = from_environment(request.backend)
    return PathChoice(path, f"{VARIABLE} is set") if path else _fastest(request)


def fusable(backend: str, dtype: str, head_size: int, value_size: int, flash: bool | None) -> bool:
    """Return True if the user asks for the backend's fused kernel, or it gives the same numbers as `four_steps`."""
    if flash:
        return True
    if backend == "jax":
        # Its softmax is at most float32, it has no CPU kernel for float16, and it requires query and value of one size.
        return dtype in ("float32", "bfloat16") and head_size == value_size
    return backend == "torch"  # TensorFlow's kernel is the four steps written out


def from_environment(backend: str) -> tuple[str, int]:
    """Return the path and the number of queries in a block from the environment variable, or "" and 0 by default.

    Raises:
        ValueError: If the backend has no such path.
    """
    value = os.environ.get(VARIABLE)
    if not value:
        return "", 0
    path, colon, height = value.partition(":")
    if path not in PATHS[backend] or (colon and not (path == "blocked" and height.isdecimal() and int(height))):
        example = ", blocked:64 (with 64 queries in a block)" if "blocked" in PATHS[backend] else ""
        raise ValueError(
            f"{VARIABLE}={value}: on {backend} the paths are {', '.join(PATHS[backend])}{example}. Set it to one of "
            "them, or unset it to leave the choice to kmha."
        )
    return path, int(height or 0)


@contextlib.contextmanager
def environment_path(path: str) -> Iterator[None]:
    """Set the environment variable to `path` within a context. "" does not change it."""
    before = os.environ.get(VARIABLE)
    try:
        if path:
            os.environ[VARIABLE] = path
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def _fused_or_steps(request: Request) -> PathChoice:
    """Return the path on JAX or torch."""
    if not request.fusable:
        return PathChoice("steps", "no fused kernel gives the same numbers")
    if request.dropout:
        return PathChoice("steps", "the fused kernel has no dropout")
    if request.flash is not None:
        return PathChoice("fused" if request.flash else "steps", f"flash_attention={request.flash}")
    if from_environment(request.backend)[0] == "steps":
        return PathChoice("steps", f"{VARIABLE} is set")
    return PathChoice("fused", "the backend's own kernel")


def _fastest(request: Request) -> PathChoice:
    """Return the fastest path on TensorFlow that memory allows."""
    if request.rows is None or request.columns is None:
        return PathChoice("direct", "the length is unknown; flash_attention=True asks for blocks")
    if request.eager and scores_bytes(request) <= MOST_EAGER:
        return PathChoice("steps", "outside of a graph, few operations matter more than memory")
    skips = request.causal or (request.window is not None and request.window < request.rows)
    if skips and not request.dropout and min(request.rows, request.columns) >= SHORTEST_SKIPPED:
        return PathChoice("blocked", f"the mask lets blocks skip keys, at {SHORTEST_SKIPPED} positions or more")
    if scores_bytes(request) > MOST_SCORES:
        return PathChoice("blocked", f"the scores would take more than {MOST_SCORES} bytes")
    return PathChoice("direct", "the scores are small enough to be kept")


def scores_bytes(request: Request) -> int:
    """Return the number of bytes of all scores (B, H, T, S)."""
    batch = USUAL_BATCH if request.batch is None else request.batch
    return request.itemsize * batch * request.heads * (request.rows or 0) * (request.columns or 0)


def tiling(request: Request, compiled: bool = False) -> Tiling:
    """Return the tiling for the path "blocked". `compiled` is true if XLA compiles the graph."""
    _, height = from_environment(request.backend)
    if height:
        return Tiling(height, 1)
    tall = request.training and (request.rows or 0) >= LONG and not compiled
    height = TALL if tall else HEIGHT
    one_row = scores_bytes(dataclasses.replace(request, rows=1))
    while height > 16 and height * one_row > MOST_BLOCK:
        height //= 2
    return Tiling(height, 2 if height * one_row <= SMALL_BLOCK else 1)


def visible_pairs(rows: int, columns: int, causal: bool = False, window: int | None = None) -> int:
    """Return the number of pairs (t, s) that a causal mask and a window allow.

    >>> visible_pairs(4, 4), visible_pairs(4, 4, causal=True), visible_pairs(4, 4, causal=True, window=2)
    (16, 10, 7)
    """
    if not causal and window is None:
        return rows * columns
    reach, row = columns + rows if window is None else window, np.arange(rows)
    last = np.minimum(columns - 1, row if causal else row + reach - 1)
    return int(np.maximum(0, last - np.maximum(0, row - reach + 1) + 1).sum())


def working_bytes(request: Request, path: str) -> int:
    """Return the approximate peak memory of score-sized tensors on `path`.

    The factors come from `kmha bench --memory` at T = 4096. The path "steps" takes about as much as the built-in.
    """
    if path == "blocked":
        height, parallel = tiling(request)
        block = scores_bytes(dataclasses.replace(request, rows=min(height, request.rows or height)))
        return parallel * (3 if request.training else 2) * block
    tensors = {"steps": (2.5, 4.0), "direct": (1.0, 2.0), "fused": (1.0, 2.0)}[path][request.training]
    return math.ceil(scores_bytes(request) * (tensors + (1.25 if request.dropout else 0.0)))
