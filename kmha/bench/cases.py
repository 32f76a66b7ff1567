"""The cases to measure: contenders, sizes, kinds of attention, passes, modes, and the rows of the table."""

import dataclasses
import importlib.util
from collections.abc import Iterable, Sequence

Size = tuple[int, int]  # (B, T)

BUILTIN, OURS = "builtin", "kmha"
WIDTH, HEADS = 512, 8  # defaults
PEERS = ("addons", "torch", "sdpa")
MODEL_PEERS = ("keras_hub", "torch")  # contenders for whole models
ALL_PEERS = tuple(dict.fromkeys((*PEERS, *MODEL_PEERS)))
PACKAGES = {"torch": "torch", "sdpa": "torch", "keras_hub": "keras_hub"}  # packages that contenders need

SIZES: dict[str, tuple[Size, ...]] = {
    "short": ((32, 10), (8, 64), (1, 64)),
    "medium": ((4, 512), (1, 2048)),
    "long": ((1, 4096),),
}
KINDS = ("plain", "causal", "windowed", "padded", "dropout")
PASSES = ("forward", "step")
BACKENDS = {"tensorflow": ("graph", "eager", "xla"), "jax": ("xla", "eager"), "torch": ("eager",)}  # default mode first
MODES = tuple(sorted({mode for modes in BACKENDS.values() for mode in modes}))
DTYPES = ("float32", "mixed_bfloat16")

SERIES = tuple((1, 2**power) for power in range(6, 14))  # sizes of the plot against T, from 64 to 8192
LONG = 2048  # from this length on, masks and memory are measured by default
DROPOUT = 0.1


@dataclasses.dataclass(frozen=True)
class AttentionRow:
    """A row of the table, for self-attention over (B, T, I) with H heads of size I / H.

    >>> AttentionRow(4, 512).head_size, AttentionRow(4, 512, kind="windowed").is_causal
    (64, True)
    """

    batch: int
    length: int
    width: int = WIDTH
    heads: int = HEADS  # must divide the width, because `torch.nn.MultiheadAttention` has no other head size
    kind: str = "plain"  # one of `KINDS`; "windowed" is also causal, "padded" hides the last quarter of the keys
    step: bool = False  # True to also compute the gradients of the input and all weights
    mode: str = "graph"  # one of the backend's modes
    backend: str = "tensorflow"  # one of `BACKENDS`
    dtype: str = "float32"  # one of `DTYPES`
    window: int = 256  # for "windowed": position t attends to positions s with 0 ≤ t - s < window

    def __post_init__(self) -> None:
        for name in ("batch", "length", "width", "heads", "window"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {getattr(self, name)}.")
        if self.width % self.heads:
            below, above = self.width // self.heads * self.heads, -(-self.width // self.heads) * self.heads
            raise ValueError(
                f"the width must be divisible by the number of heads. Received: width {self.width}, {self.heads} "
                f"heads. Try width {f'{below} or ' if below else ''}{above}, or another number of heads."
            )
        modes = BACKENDS.get(self.backend, ())
        for name, known in (("kind", KINDS), ("backend", (*BACKENDS,)), ("dtype", DTYPES), ("mode", modes)):
            if getattr(self, name) not in known:
                on = f" on {self.backend}" if name == "mode" else ""
                raise ValueError(f"{name}{on} must be one of {', '.join(known)}. Received: {getattr(self, name)!r}.")

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.batch, self.length, self.width

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    @property
    def is_causal(self) -> bool:
        return self.kind in ("causal", "windowed")

    @property
    def dropout(self) -> float:
        return DROPOUT if self.kind == "dropout" else 0.0

    @property
    def comparable(self) -> bool:
        """True if contenders must give the same results. With dropout, each contender draws its own numbers."""
        return not self.dropout

    @property
    def model(self) -> str:
        """Description of the attention layer, for the legend."""
        return f"width {self.width}, {self.heads} heads"

    @property
    def is_training(self) -> bool:
        """Value of the `training` argument, which is True for a step and for dropout."""
        return self.step or self.dropout > 0

    @property
    def size(self) -> str:
        return f"{self.batch} × {self.length}"

    @property
    def pass_name(self) -> str:
        return PASSES[self.step]

    def __str__(self) -> str:
        return f"{self.size} {self.kind} {self.pass_name} {self.mode}"


@dataclasses.dataclass(frozen=True)
class ModelRow:
    """A row of the table, for a post-norm encoder-decoder with shared embeddings that returns logits.

    >>> str(ModelRow(256, 16)), str(ModelRow(32, 64, step=False))
    ('256 × 16 training step', '32 × 64 greedy decoding')
    """

    batch: int
    length: int  # number of target positions (T); in decoding, number of tokens to decode
    step: bool = True  # True for a training step with Adam on B × T target tokens, False for decoding
    source: int = 16  # number of source positions (S)
    width: int = 128
    heads: int = 4
    layers: int = 4  # number of layers in the encoder, and in the decoder
    feed_forward: int = 256
    vocabulary: int = 6000
    rate: float = 0.1  # dropout rate
    smoothing: float = 0.1  # label smoothing

    mode, backend, dtype = "graph", "tensorflow", "float32"
    pass_name = "–"  # `kind` names the pass
    comparable = True

    @property
    def kind(self) -> str:
        return "training step" if self.step else "greedy decoding"

    @property
    def size(self) -> str:
        return f"{self.batch} × {self.length}"

    @property
    def model(self) -> str:
        """Description of the whole model, for the legend."""
        return (
            f"{self.layers}+{self.layers} layers, width {self.width}, {self.heads} heads, feed-forward "
            f"{self.feed_forward}, vocabulary {self.vocabulary:,}, {self.source} source positions"
        )

    @property
    def flops(self) -> int | None:
        """FLOPs of the matrix products in a training step (three times the forward pass), or `None` for decoding."""
        if not self.step:
            return None
        source, target, width = self.batch * self.source, self.batch * self.length, self.width
        projections = self.layers * 4 * width**2 * (source + target)  # self-attention
        projections += self.layers * 2 * width**2 * (source + target)  # cross-attention
        pairs = source * self.source + target * self.length + target * self.source
        attention = self.layers * 2 * width * pairs
        feed_forward = self.layers * 2 * width * self.feed_forward * (source + target)
        return 3 * 2 * (projections + attention + feed_forward + target * width * self.vocabulary)

    def __str__(self) -> str:
        return f"{self.size} {self.kind}"


MODEL_ROWS = (ModelRow(256, 16), ModelRow(32, 64, step=False))


def sizes(text: str) -> tuple[Size, ...]:
    """Return the sizes in a group of this name, or the single size in a text such as 2x1000.

    Raises:
        ValueError: The text is neither a name nor a size.

    >>> sizes("medium"), sizes("2x1000")
    (((4, 512), (1, 2048)), ((2, 1000),))
    """
    if text in SIZES:
        return SIZES[text]
    batch, cross, length = text.lower().replace("×", "x").partition("x")
    if not (cross and batch.isdecimal() and length.isdecimal() and int(batch) and int(length)):
        raise ValueError(
            f"expected {', '.join(SIZES)} or BxT with a batch and a length of at least 1, such as 2x1000. "
            f"Received: {text!r}."
        )
    return ((int(batch), int(length)),)


def select(
    chosen: Iterable[Size],
    kinds: Sequence[str] = (),
    passes: Sequence[str] = PASSES,
    modes: Sequence[str] = (),
    width: int = WIDTH,
    heads: int = HEADS,
    backend: str = "tensorflow",
    dtype: str = "float32",
) -> list[AttentionRow]:
    """Return the rows of all combinations, sorted by size. No `kinds` means "plain", and from `LONG` on all kinds. No
    `modes` means the first of the backend.

    >>> [str(row) for row in select([(2, 3)], modes=("xla",))]
    ['2 × 3 plain forward xla', '2 × 3 plain step xla']
    """
    return [
        AttentionRow(batch, length, width, heads, kind, step, mode, backend, dtype)
        for batch, length in dict.fromkeys(chosen)
        for kind in kinds or (KINDS if length >= LONG else KINDS[:1])
        for mode in modes or BACKENDS[backend][:1]
        for step in (name == "step" for name in PASSES if name in passes)
    ]


def is_installed(name: str) -> bool:
    """Return True if the package that a contender needs is installed."""
    return name not in PACKAGES or importlib.util.find_spec(PACKAGES[name]) is not None


def check_series(rows: Sequence[AttentionRow]) -> None:
    """Raise a ValueError unless the rows are a single series against T, as a plot requires."""
    for name in ("kind", "mode", "batch"):
        found = sorted({str(getattr(row, name)) for row in rows})
        if len(found) > 1:
            raise ValueError(f"a picture shows only one {name}. Received: {', '.join(found)}. Choose one of them.")
    lengths = {row.length for row in rows}
    if len(lengths) < 2:
        raise ValueError(f"a picture against T needs at least two lengths. Received: {[*lengths]}. Add another size.")
