"""Which way attention is computed, and what it costs: numbers only, no tensors."""

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator

import numpy as np

VARIABLE = "KMHA_ATTENTION_PATH"

# The ways on each backend; all give the same numbers to rounding.
PATHS = {"tensorflow": ("steps", "direct", "blocked"), "jax": ("steps", "fused"), "torch": ("steps", "fused")}

# From this length on, skipping what a causal mask or a window hides pays for computing the scores twice.
SHORTEST_SKIPPED = 512

# Where nothing can be skipped, blocks cost up to a fifth more time in training: above this, in bytes of scores, memory
# counts more.
MOST_SCORES = 2**30

# With the batch unknown, so many are assumed.
USUAL_BATCH = 8

# Queries of a block, in general and in the training of long sequences, and what the scores of a block may take, in
# bytes: more are halved, and only small blocks are computed two at a time.
HEIGHT, TALL, LONG = 128, 256, 2048
MOST_BLOCK, SMALL_BLOCK = 2**28, 2**25


@dataclasses.dataclass(frozen=True)
class Request:
    """What is to be computed, as far as it is known before it is.

    Attributes:
        batch: B, or `None`.
        rows: T, or `None`.
        columns: S, or `None`.
        heads: H.
        backend: "tensorflow", "jax" or "torch".
        item: bytes of a score.
        causal: as in `attend`; so is `window`.
        window: as in `attend`.
        dropout: whether scores are dropped.
        scores: whether the scores are returned.
        training: whether a backward pass is to be expected.
        fusable: whether the backend has a fused kernel that gives what the steps give.
        flash: the layer's `flash_attention`.
    """

    batch: int | None
    rows: int | None
    columns: int | None
    heads: int
    backend: str = "tensorflow"
    item: int = 4
    causal: bool = False
    window: int | None = None
    dropout: bool = False
    scores: bool = False
    training: bool = False
    fusable: bool = False
    flash: bool | None = None


@dataclasses.dataclass(frozen=True)
class Choice:
    """A path, and why it was taken."""

    path: str
    reason: str


def choose(request: Request) -> Choice:
    """The path for a request: the first line that fits. `flash_attention` comes before the environment's wish.

    | when | path |
    | --- | --- |
    | the scores are returned | steps |
    | JAX, torch: a fused kernel gives the same | fused, else steps |
    | `flash_attention=True` / `False` | blocked / direct |
    | `KMHA_ATTENTION_PATH` is set, to `blocked:64` for instance | that, with 64 queries in a block |
    | T or S is unknown | direct |
    | causal or windowed, no dropout, T ≥ 512 and S ≥ 512 | blocked |
    | the scores would take more than 1 GiB | blocked |
    | else | direct |

    Behind it are ratios to the built-in layer, on two cores in graph mode (`kmha bench`, with the environment variable
    set to each):

    | | direct, forward / step | blocked, forward / step |
    | --- | --- | --- |
    | causal, 8 × 256 | 0.87 / 0.83 | 0.84 / 0.84 |
    | causal, 4 × 512 | 0.85 / 0.82 | 0.73 / 0.77 |
    | causal, 2 × 1024 | 0.86 / 0.80 | 0.66 / 0.69 |
    | nothing to skip, 2 × 1024 | 0.82 / 0.81 | 0.81 / 0.93 |

    Blocks draw the numbers of the dropout a second time in the backward pass, which takes longer than skipping saves.

    >>> choose(Request(batch=1, rows=2048, columns=2048, heads=8, causal=True)).path
    'blocked'
    """
    if request.scores:
        return Choice("steps", "the scores are returned")
    if request.backend != "tensorflow":
        if request.fusable and not request.dropout and (request.flash or wish(request.backend)[0] != "steps"):
            return Choice("fused", "the backend's own kernel")
        return Choice("steps", "no fused kernel does the same")
    if request.flash is not None:
        return Choice("blocked" if request.flash else "direct", f"flash_attention={request.flash}")
    wanted, _ = wish(request.backend)
    return Choice(wanted, f"{VARIABLE} is set") if wanted else _best(request)


def fuses(backend: str, dtype: str, head_size: int, value_size: int, flash: bool | None) -> bool:
    """Whether the backend's fused kernel was asked for, or gives what the written-out steps give."""
    if flash:
        return True
    if backend == "jax":
        # Its softmax is never wider than float32, its float16 has no CPU kernel, and it takes one head size for all.
        return dtype in ("float32", "bfloat16") and head_size == value_size
    return backend == "torch"  # TensorFlow's is the four steps written out


def wish(backend: str) -> tuple[str, int]:
    """The path that the environment asks for, and the queries of a block; "" and 0 for what it leaves open.

    Raises:
        ValueError: the backend has no such path.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return "", 0
    path, colon, height = given.partition(":")
    if path not in PATHS[backend] or (colon and not (path == "blocked" and height.isdecimal() and int(height))):
        example = ", blocked:64 (with the queries of a block)" if "blocked" in PATHS[backend] else ""
        raise ValueError(
            f"{VARIABLE}={given}: on {backend} the paths are {', '.join(PATHS[backend])}{example}. Set it to one of "
            "them, or unset it to leave the choice to kmha."
        )
    return path, int(height or 0)


@contextlib.contextmanager
def wished(path: str) -> Iterator[None]:
    """Sets the environment's wish for a while; "" leaves it as it is."""
    before = os.environ.get(VARIABLE)
    try:
        if path:
            os.environ[VARIABLE] = path
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def _best(request: Request) -> Choice:
    """The fastest path that memory allows."""
    if request.rows is None or request.columns is None:
        return Choice("direct", "the length is not known; flash_attention=True asks for blocks")
    skips = request.causal or (request.window is not None and request.window < request.rows)
    if skips and not request.dropout and min(request.rows, request.columns) >= SHORTEST_SKIPPED:
        return Choice("blocked", f"a mask to skip by, and at least {SHORTEST_SKIPPED} positions")
    if scores_bytes(request) > MOST_SCORES:
        return Choice("blocked", f"the scores would take more than {MOST_SCORES} bytes")
    return Choice("direct", "short enough to be kept whole")


def scores_bytes(request: Request) -> int:
    """What all scores (B, H, T, S) take."""
    batch = USUAL_BATCH if request.batch is None else request.batch
    return request.item * batch * request.heads * (request.rows or 0) * (request.columns or 0)


def tiling(request: Request, compiled: bool = False) -> tuple[int, int]:
    """The queries of a block, and how many blocks are computed at a time; `compiled` by XLA."""
    _, wanted = wish(request.backend)
    if wanted:
        return wanted, 1
    tall = request.training and (request.rows or 0) >= LONG and not compiled
    height = TALL if tall else HEIGHT
    one = scores_bytes(dataclasses.replace(request, rows=1))
    while height > 16 and height * one > MOST_BLOCK:
        height //= 2
    return height, 2 if height * one <= SMALL_BLOCK else 1


def visible_pairs(rows: int, columns: int, causal: bool = False, window: int | None = None) -> int:
    """How many (t, s) a causal mask and a window leave.

    >>> visible_pairs(4, 4), visible_pairs(4, 4, causal=True), visible_pairs(4, 4, causal=True, window=2)
    (16, 10, 7)
    """
    if not causal and window is None:
        return rows * columns
    reach, row = columns + rows if window is None else window, np.arange(rows)
    last = np.minimum(columns - 1, row if causal else row + reach - 1)
    return int(np.maximum(0, last - np.maximum(0, row - reach + 1) + 1).sum())


def working_bytes(request: Request, path: str) -> int:
    """What the scores and their like take at the peak, in about: whole tensors of them, or blocks.

    The factors are what `kmha bench --memory` shows at T = 4096; "steps" is about what the built-in takes.
    """
    whole = scores_bytes(request)
    if path == "blocked":
        height, alive = tiling(request)
        block = scores_bytes(dataclasses.replace(request, rows=min(height, request.rows or height)))
        return alive * (3 if request.training else 2) * block
    tensors = {"steps": (2.5, 4.0), "direct": (1.0, 2.0), "fused": (1.0, 2.0)}[path][request.training]
    return math.ceil(whole * (tensors + (1.25 if request.dropout else 0.0)))
