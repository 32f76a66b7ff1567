"""Who and what is measured: contenders, sizes, kinds of attention, passes and modes, and the rows that they make."""

import dataclasses
import importlib.util
from collections.abc import Iterable, Sequence

Size = tuple[int, int]  # (B, T)

BUILTIN, OURS = "builtin", "kmha"
WIDTH, HEADS = 512, 8  # where no others are chosen
PEERS = ("addons", "torch", "sdpa")
MODEL_PEERS = ("keras_hub", "torch")  # of a whole model
ALL_PEERS = tuple(dict.fromkeys((*PEERS, *MODEL_PEERS)))
PACKAGES = {"torch": "torch", "sdpa": "torch", "keras_hub": "keras_hub"}  # what contenders are made of

SIZES: dict[str, tuple[Size, ...]] = {
    "short": ((32, 10), (8, 64), (1, 64)),
    "medium": ((4, 512), (1, 2048)),
    "long": ((1, 4096),),
}
KINDS = ("plain", "causal", "windowed", "padded", "dropout")
PASSES = ("forward", "step")
MODES = ("eager", "graph", "xla")

SERIES = tuple((1, 2**power) for power in range(6, 14))  # what a picture against T is drawn from: 64 … 8192
LONG = 2048  # from here on masks and memory matter enough to be measured unasked
DROPOUT = 0.1


@dataclasses.dataclass(frozen=True)
class AttentionRow:
    """One line of the table: self-attention of (B, T, I) with H heads of I / H.

    Args:
        batch: B.
        length: T.
        width: I, and E.
        heads: H, which must divide I: `torch.nn.MultiheadAttention` has no other head size.
        kind: one of `KINDS`; "windowed" is causal too, "padded" hides the last quarter of each row's keys.
        step: forward and the gradients with respect to the input and all weights, or forward alone.
        mode: one of `MODES`.
        window: of "windowed": t attends to s with 0 ≤ t - s < window.

    >>> AttentionRow(4, 512).head_size, AttentionRow(4, 512, kind="windowed").is_causal
    (64, True)
    """

    batch: int
    length: int
    width: int = 512
    heads: int = 8
    kind: str = "plain"
    step: bool = False
    mode: str = "graph"
    window: int = 256

    def __post_init__(self) -> None:
        for name in ("batch", "length", "width", "heads", "window"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more. Received: {getattr(self, name)}.")
        if self.width % self.heads:
            below, above = self.width // self.heads * self.heads, -(-self.width // self.heads) * self.heads
            raise ValueError(
                f"the heads must divide the width, for every contender to have heads of one size. Received: width "
                f"{self.width}, {self.heads} heads. Give a width of {below or above} or {above}, or other heads."
            )
        for name, known in (("kind", KINDS), ("mode", MODES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}. Received: {getattr(self, name)!r}.")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, T, I)."""
        return self.batch, self.length, self.width

    @property
    def head_size(self) -> int:
        """O."""
        return self.width // self.heads

    @property
    def is_causal(self) -> bool:
        return self.kind in ("causal", "windowed")

    @property
    def dropout(self) -> float:
        return DROPOUT if self.kind == "dropout" else 0.0

    @property
    def comparable(self) -> bool:
        """Whether contenders must give the same results: with dropout each draws for itself."""
        return not self.dropout

    @property
    def model(self) -> str:
        """The layer in words, for the legend."""
        return f"width {self.width}, {self.heads} heads"

    @property
    def is_training(self) -> bool:
        """What the layers are told: a step is training, and so is whatever drops."""
        return self.step or self.dropout > 0

    @property
    def size(self) -> str:
        """As the tables have it, "4 × 512"."""
        return f"{self.batch} × {self.length}"

    @property
    def pass_name(self) -> str:
        return PASSES[self.step]

    def __str__(self) -> str:
        return f"{self.size} {self.kind} {self.pass_name} {self.mode}"


@dataclasses.dataclass(frozen=True)
class ModelRow:
    """One line of the table: an encoder and a decoder with post-norm, shared embeddings, and their logits.

    Args:
        batch: B.
        length: T; in decoding, how many tokens are decoded.
        step: a training step, with Adam, of batches of B × T target tokens; else decoding.
        source: S.
        width: D.
        heads: H, which divide D.
        layers: of the encoder, and of the decoder.
        feed_forward: the features in between.
        vocabulary: V.
        rate: of the dropout.
        smoothing: of the labels.

    >>> str(ModelRow(256, 16)), str(ModelRow(32, 64, step=False))
    ('256 × 16 training step', '32 × 64 greedy decoding')
    """

    batch: int
    length: int
    step: bool = True
    source: int = 16
    width: int = 128
    heads: int = 4
    layers: int = 4
    feed_forward: int = 256
    vocabulary: int = 6000
    rate: float = 0.1
    smoothing: float = 0.1

    mode = "graph"
    pass_name = "–"  # what it is stands in `kind`
    comparable = True

    @property
    def kind(self) -> str:
        return "training step" if self.step else "greedy decoding"

    @property
    def size(self) -> str:
        """As the tables have it, "256 × 16"."""
        return f"{self.batch} × {self.length}"

    @property
    def model(self) -> str:
        """The model in words, for the legend."""
        return (
            f"{self.layers}+{self.layers} layers, width {self.width}, {self.heads} heads, feed-forward "
            f"{self.feed_forward}, vocabulary {self.vocabulary:,}, {self.source} source positions"
        )

    @property
    def flops(self) -> int | None:
        """Of the products of matrices in a training step, each of which comes three times; `None` of decoding."""
        if not self.step:
            return None
        source, target, width = self.batch * self.source, self.batch * self.length, self.width
        projections = self.layers * 4 * width**2 * (source + target)  # self-attention
        projections += self.layers * 2 * width**2 * (source + target)  # of cross-attention
        pairs = source * self.source + target * self.length + target * self.source
        attention = self.layers * 2 * width * pairs
        feed_forward = self.layers * 2 * width * self.feed_forward * (source + target)
        return 3 * 2 * (projections + attention + feed_forward + target * width * self.vocabulary)

    def __str__(self) -> str:
        return f"{self.size} {self.kind}"


MODEL_ROWS = (ModelRow(256, 16), ModelRow(32, 64, step=False))


def sizes(text: str) -> tuple[Size, ...]:
    """The sizes of a name, or the one that is spelled out.

    Raises:
        ValueError: it is neither.

    >>> sizes("medium"), sizes("2x1000")
    (((4, 512), (1, 2048)), ((2, 1000),))
    """
    if text in SIZES:
        return SIZES[text]
    batch, cross, length = text.lower().replace("×", "x").partition("x")
    if not (cross and batch.isdecimal() and length.isdecimal() and int(batch) and int(length)):
        raise ValueError(
            f"expected {', '.join(SIZES)} or BxT with a batch and a length of 1 or more, such as 2x1000. "
            f"Received: {text!r}."
        )
    return ((int(batch), int(length)),)


def select(
    chosen: Iterable[Size],
    kinds: Sequence[str] = (),
    passes: Sequence[str] = PASSES,
    modes: Sequence[str] = ("graph",),
    width: int = 512,
    heads: int = 8,
) -> list[AttentionRow]:
    """All combinations, each size's rows together.

    Args:
        chosen: (B, T) each.
        kinds: of `KINDS`; none means "plain", and all of them from `LONG` on.
        passes: of `PASSES`.
        modes: of `MODES`.
        width: I.
        heads: H.

    >>> [str(row) for row in select([(2, 3)], modes=("xla",))]
    ['2 × 3 plain forward xla', '2 × 3 plain step xla']
    """
    return [
        AttentionRow(batch, length, width, heads, kind, step, mode)
        for batch, length in dict.fromkeys(chosen)
        for kind in kinds or (KINDS if length >= LONG else KINDS[:1])
        for mode in modes
        for step in (name == "step" for name in PASSES if name in passes)
    ]


def is_installed(name: str) -> bool:
    """Whether what a contender is made of is there."""
    return name not in PACKAGES or importlib.util.find_spec(PACKAGES[name]) is not None


def check_series(rows: Sequence[AttentionRow]) -> None:
    """Raises a ValueError unless the rows make one series against T, for a picture."""
    for name in ("kind", "mode", "batch"):
        found = sorted({str(getattr(row, name)) for row in rows})
        if len(found) > 1:
            raise ValueError(f"a picture shows one {name} only. Received: {', '.join(found)}. Choose one of them.")
    lengths = {row.length for row in rows}
    if len(lengths) < 2:
        raise ValueError(f"a picture against T needs two lengths at least. Received: {[*lengths]}. Add another size.")
