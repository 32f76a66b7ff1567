"""What a comparison runs: one `Case` is a layer's arguments, a call, and the shapes and masks that go with it.

All sizes in a case that is drawn are pairwise different, so that an exchanged axis cannot pass.
"""

import dataclasses
import math
from typing import Any

import ml_dtypes
import numpy as np

SMALL = (2, 3, 5, 7)  # positions, heads and batch: their product is what the reference loops over
WIDE = (6, 8, 9, 10, 11, 12, 13, 14)  # features and head sizes
FURTHER = 4  # a second axis of positions, attended over or not
# Head sizes whose scale 1/√O is a float32: the built-in rounds its scale to float32 even in float64.
EXACT = (4, 16)
MASK_SHAPES = ("TS", "BTS", "1TS", "B1TS", "BHTS", "BHT1", "B11S")
MASK_SHAPES_BETWEEN = ("TS", "BTS", "BXTS", "1XTS", "BXHTS", "BX1TS", "B1HT1")
PADDINGS = ("query_mask", "value_mask", "key_mask")


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison. The defaults are the plainest layer; a failing case is shrunk towards them.

    Attributes:
        seed: of weights, inputs, masks and dropout.
        dtype: a dtype or dtype policy.
        batch: B.
        rows: T, or the query's sizes along the attention axes.
        columns: S, or the key's.
        between: the size X of an axis that is not attended over, which query and key share; 0 means there is none.
        axis: where the attention axis stands if there is such an axis: 1 or 2.
        negative: whether the attention axis is counted from the end.
        widths: I of query, value and key; a key of width 0 means none is passed.
        heads: H.
        key_dim: O of query and key.
        value_dim: O of value; `None` means `key_dim`.
        output_shape: E, or several.
        mask: the axes of `attention_mask`, such as "BTS" or "BXHTS", 1 for a size of one; "" means none.
        paddings: which padding masks there are, "+" for those that the tensors carry: ("+query_mask", "value_mask").
        empty: whether the attention mask leaves a row nothing to attend to.
        self_attention: whether the query is passed as the value too, which then has its sizes.
        path: how our layer computes attention on TensorFlow, such as "blocked:2"; "" leaves the choice to it.
    """

    seed: int = 0
    dtype: str = "float64"
    batch: int = 2
    rows: tuple[int, ...] = (3,)
    columns: tuple[int, ...] = (5,)
    between: int = 0
    axis: int = 1
    negative: bool = False
    widths: tuple[int, int, int] = (6, 8, 0)
    heads: int = 7
    key_dim: int = 4
    value_dim: int | None = None
    output_shape: tuple[int, ...] | None = None
    use_bias: bool = True
    use_gate: bool = False
    dropout: float = 0.0
    training: bool = False
    sliding_window: int | None = None
    use_causal_mask: bool = False
    mask: str = ""
    paddings: tuple[str, ...] = ()
    empty: bool = False
    return_scores: bool = False
    self_attention: bool = False
    path: str = ""

    def __post_init__(self) -> None:
        if self.self_attention:
            object.__setattr__(self, "columns", self.rows)
            object.__setattr__(self, "widths", (self.widths[0], self.widths[0], 0))
            if any(name.startswith("+") for name in self.paddings):  # the one tensor carries one mask
                object.__setattr__(self, "paddings", ("+query_mask",))

    @property
    def attention_axes(self) -> tuple[int, ...] | None:
        if not self.between:
            return None
        return (self.axis - self.rank,) if self.negative else (self.axis,)

    @property
    def rank(self) -> int:
        """How many axes the inputs have."""
        return 2 + len(self.rows) + bool(self.between)

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, without those that are at their default."""
        names = ("num_heads", "value_dim", "output_shape", "use_bias", "use_gate", "dropout", "sliding_window")
        values = {**dataclasses.asdict(self), "num_heads": self.heads}
        changed = {name: values[name] for name in names if values[name] != _DEFAULTS.get(name)}
        given = {"num_heads": self.heads, "key_dim": self.key_dim, **changed, "dtype": self.dtype}
        if self.attention_axes:
            given["attention_axes"] = self.attention_axes
        return {**given, "seed": self.seed} if self.dropout else given

    def call_flags(self) -> dict[str, bool]:
        """The call's arguments that are not tensors, without those that are at their default."""
        flags = {"training": self.training, "use_causal_mask": self.use_causal_mask}
        flags["return_attention_scores"] = self.return_scores
        return {name: value for name, value in flags.items() if value}

    def shape(self, positions: tuple[int, ...], *width: int) -> tuple[int, ...]:
        """(B, positions, I), with the axis that is not attended over where it belongs."""
        middle = list(positions)
        if self.between:
            middle.insert(2 - self.axis, self.between)
        return (self.batch, *middle, *width)

    def inputs(self) -> dict[str, np.ndarray]:
        """Query, and value and key if they are others, as float64 arrays of numbers that the compute dtype holds."""
        rng = np.random.default_rng(self.seed)
        shapes = {"query": (self.rows, self.widths[0])}
        if not self.self_attention:
            shapes["value"] = (self.columns, self.widths[1])
        if self.widths[2]:
            shapes["key"] = (self.columns, self.widths[2])
        return {name: self.rounded(rng.normal(size=self.shape(*shape))) for name, shape in shapes.items()}

    def weights(self) -> dict[str, np.ndarray]:
        """Weights in the canonical layout, of a size that keeps the scores away from 0 and 1."""
        rng = np.random.default_rng(self.seed + 1)
        query, value, key = self.widths[0], self.widths[1], self.widths[2] or self.widths[1]
        value_dim, output = self.value_dim or self.key_dim, self.output_shape or (query,)
        heads = {"query": (query, self.key_dim), "key": (key, self.key_dim)}
        if self.use_gate:
            heads["gate"] = (query, value_dim)
        heads["value"] = (value, value_dim)
        shapes: dict[str, tuple[int, ...]] = {}
        for role, (width, size) in heads.items():
            shapes[f"{role}/kernel"], shapes[f"{role}/bias"] = (self.heads, width, size), (self.heads, size)
        shapes["attention_output/kernel"] = (self.heads, value_dim, *output)
        shapes["attention_output/bias"] = output
        return {
            name: self.rounded(rng.normal(size=shape) / math.sqrt(math.prod(shape[-2:-1])))
            for name, shape in shapes.items()
            if self.use_bias or name.endswith("kernel")
        }

    def masks(self) -> dict[str, np.ndarray]:
        """The masks by the name of the call's argument, "+" before those that the tensors carry."""
        rng = np.random.default_rng(self.seed + 2)
        masks = {}
        for name in self.paddings:
            mask = rng.random(self.shape(self.rows if "query" in name else self.columns)) < 0.75
            mask.reshape(self.batch, -1)[:, 0] = True
            masks[name] = mask
        if self.mask:
            masks["attention_mask"] = self._attention_mask(rng)
        return masks

    def upstream(self) -> np.ndarray:
        """What the output is multiplied by before it is summed, to take the gradient of."""
        output = self.output_shape or (self.widths[0],)
        return self.rounded(np.random.default_rng(self.seed + 3).normal(size=self.shape(self.rows, *output)))

    def rounded(self, numbers: np.ndarray) -> np.ndarray:
        """`numbers`, rounded to what the compute dtype holds."""
        compute = self.dtype.removeprefix("mixed_")
        return numbers.astype(ml_dtypes.bfloat16 if compute == "bfloat16" else compute).astype("float64")

    def _attention_mask(self, rng: np.random.Generator) -> np.ndarray:
        sizes = {"B": (self.batch,), "X": (self.between,), "H": (self.heads,), "T": self.rows, "S": self.columns}
        front = ("BX" if self.between else "B") + "H"  # as Keras: axes are missing just before the attention axes
        axes = front[: len(self.mask) - 2] + "TS"
        shape: tuple[int, ...] = ()
        for letter, axis in zip(self.mask, axes, strict=True):
            shape += (1,) * len(sizes[axis]) if letter == "1" else sizes[letter]
        mask = rng.random(shape) < 0.7
        if self.empty:
            mask.reshape(-1, math.prod(mask.shape[-len(self.columns) :]))[0] = False
        else:
            mask.reshape(-1, math.prod(mask.shape[-len(self.columns) :]))[:, 0] = True
        return mask


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Case) if field.name != "heads"}
