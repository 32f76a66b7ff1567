"""What is measured of a whole model: a training step, and greedy decoding."""

import dataclasses


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
