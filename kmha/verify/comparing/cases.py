"""The cases of a comparison. A `Case` is a layer's arguments and one call of the layer, with all shapes and masks.

The sizes in a random case are pairwise different, so that a layer that swaps two axes cannot pass.
"""

import dataclasses
import math
from typing import Any

import ml_dtypes
import numpy as np

SMALL = (2, 3, 5, 7)  # positions, heads and batch: the reference loops over all of them
WIDE = (6, 8, 9, 10, 11, 12, 13, 14)  # features and head sizes
FURTHER = 4  # a second axis of positions, for inputs of higher rank
# Head sizes whose scale 1/√O is exact in float32, because the built-in rounds its scale to float32 even in float64.
EXACT = (4, 16)
MASK_SHAPES = ("TS", "BTS", "1TS", "B1TS", "BHTS", "BHT1", "B11S")
MASK_SHAPES_BETWEEN = ("TS", "BTS", "BXTS", "1XTS", "BXHTS", "BX1TS", "B1HT1")
PADDINGS = ("query_mask", "value_mask", "key_mask")


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of a comparison. The defaults give the plainest layer, and failing cases are shrunk towards them.

    Attributes:
        seed: Seed of the weights, inputs, masks and dropout.
        dtype: Dtype or dtype policy of the layer.
        batch: Batch size (B).
        rows: Query positions (T), or the query's sizes along the attention axes.
        columns: Key positions (S), or the key's sizes along the attention axes.
        between: Size X of an axis that query and key share and do not attend along, or 0 if there is no such axis.
        axis: Position of the attention axis (1 or 2) if `between` is not 0.
        negative: Whether `attention_axes` counts from the end.
        widths: Features (I) of query, value and key. A key with 0 features is not passed.
        heads: Number of heads (H).
        key_dim: Head size (O) of query and key.
        value_dim: Head size of the value. `None` means `key_dim`.
        output_shape: Output features (E), as one size or several sizes.
        mask: Axes of `attention_mask`, such as "BTS" or "BXHTS", with 1 for an axis of size one. "" means no mask.
        paddings: Names of the padding masks, such as ("+query_mask", "value_mask"). A tensor carries a mask with "+".
        empty: Whether the attention mask leaves a row with nothing to attend to.
        self_attention: Whether the query is passed as the value too. The value then has the query's sizes.
        path: How kmha's layer computes attention on TensorFlow, such as "blocked:2". "" lets the layer choose.
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
            if any(name.startswith("+") for name in self.paddings):  # one tensor carries one mask
                object.__setattr__(self, "paddings", ("+query_mask",))

    @property
    def attention_axes(self) -> tuple[int, ...] | None:
        if not self.between:
            return None
        return (self.axis - self.rank,) if self.negative else (self.axis,)

    @property
    def rank(self) -> int:
        """The number of axes of the inputs."""
        return 2 + len(self.rows) + bool(self.between)

    def arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments that differ from their defaults."""
        names = ("num_heads", "value_dim", "output_shape", "use_bias", "use_gate", "dropout", "sliding_window")
        values = {**dataclasses.asdict(self), "num_heads": self.heads}
        changed = {name: values[name] for name in names if values[name] != _DEFAULTS.get(name)}
        given = {"num_heads": self.heads, "key_dim": self.key_dim, **changed, "dtype": self.dtype}
        if self.attention_axes:
            given["attention_axes"] = self.attention_axes
        return {**given, "seed": self.seed} if self.dropout else given

    def call_flags(self) -> dict[str, bool]:
        """Return the call's arguments that are not tensors and differ from their defaults."""
        flags = {"training": self.training, "use_causal_mask": self.use_causal_mask}
        flags["return_attention_scores"] = self.return_scores
        return {name: value for name, value in flags.items() if value}

    def shape(self, positions: tuple[int, ...], *width: int) -> tuple[int, ...]:
        """Return the shape (B, positions, I), with the axis X inserted if the case has one."""
        middle = list(positions)
        if self.between:
            middle.insert(2 - self.axis, self.between)
        return (self.batch, *middle, *width)

    def inputs(self) -> dict[str, np.ndarray]:
        """Return query, and value and key if passed separately, as float64 arrays rounded to the compute dtype."""
        rng = np.random.default_rng(self.seed)
        shapes = {"query": (self.rows, self.widths[0])}
        if not self.self_attention:
            shapes["value"] = (self.columns, self.widths[1])
        if self.widths[2]:
            shapes["key"] = (self.columns, self.widths[2])
        return {name: self.rounded(rng.normal(size=self.shape(*shape))) for name, shape in shapes.items()}

    def weights(self) -> dict[str, np.ndarray]:
        """Return weights in the canonical layout, scaled to keep the scores away from 0 and 1."""
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
        """Return the masks, keyed by argument. The name of a mask that a tensor carries begins with "+"."""
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
        """Return the array U in Σ output · U, the sum whose gradients are compared."""
        output = self.output_shape or (self.widths[0],)
        return self.rounded(np.random.default_rng(self.seed + 3).normal(size=self.shape(self.rows, *output)))

    def rounded(self, numbers: np.ndarray) -> np.ndarray:
        """Round `numbers` to the compute dtype."""
        compute = self.dtype.removeprefix("mixed_")
        return numbers.astype(ml_dtypes.bfloat16 if compute == "bfloat16" else compute).astype("float64")

    def _attention_mask(self, rng: np.random.Generator) -> np.ndarray:
        sizes = {"B": (self.batch,), "X": (self.between,), "H": (self.heads,), "T": self.rows, "S": self.columns}
        front = ("BX" if self.between else "B") + "H"  # as in Keras, missing axes come just before the attention axes
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

# Most cases of a run have the widest dtype, where rounding cannot hide a wrong term. Some have one of these dtypes.
OTHER_DTYPES = {3: "float32", 5: "mixed_float16", 7: "mixed_bfloat16"}


def dtype_of(index: int, widest: str) -> str:
    """Return the default dtype of case number `index`."""
    return OTHER_DTYPES.get(index % 8, widest)


def draw_case(seed: int, index: int, dtype: str = "float64") -> Case:
    """Draw case number `index` of the run with `seed`. The same seed gives the same cases."""
    rng = np.random.default_rng((seed, index))
    small, wide = [int(n) for n in rng.permutation(SMALL)], [int(n) for n in rng.permutation(WIDE)]
    if rng.random() < 0.15:  # seldom let B, H, T or S be 1, because with one key, every layer has the same scores
        small[rng.integers(4)] = 1
    shape = _shape(rng, small)
    key = wide.pop() if rng.random() < 0.5 else 0
    drawn = Case(
        seed=int(rng.integers(1, 10**6)),
        dtype=dtype,
        heads=small[0],
        batch=small[1],
        widths=(wide.pop(), wide.pop(), key),
        key_dim=_key_dim(rng, dtype, wide, FURTHER in (shape.get("between"), *shape["rows"])),
        value_dim=_sometimes(rng, 0.4, wide.pop()),
        output_shape=_sometimes(rng, 0.3, (wide.pop(), wide.pop()) if rng.random() < 0.3 else (wide.pop(),)),
        use_bias=bool(rng.random() < 0.8),
        use_gate=bool(rng.random() < 0.2),
        dropout=0.3 if rng.random() < 0.25 else 0.0,
        training=bool(rng.random() < 0.6),
        sliding_window=_sometimes(rng, 0.2, int(rng.integers(1, 5))),
        use_causal_mask=bool(rng.random() < 0.3),
        mask=_mask(rng, "between" in shape) if rng.random() < 0.35 else "",
        empty=bool(rng.random() < 0.25),
        paddings=_paddings(rng, bool(key)) if rng.random() < 0.35 else (),
        return_scores=bool(rng.random() < 0.4),
        self_attention=not key and bool(rng.random() < 0.4),
        **shape,
    )
    # Draw blocks of two or three queries. XLA draws dropout in its own order, for which no mask is known.
    possible = not drawn.return_scores and not (drawn.dropout and drawn.training)
    blocks = rng.random() < 0.4 and possible
    return dataclasses.replace(drawn, path=f"blocked:{rng.integers(2, 4)}") if blocks else drawn


def _shape(rng: np.random.Generator, small: list[int]) -> dict[str, Any]:
    """Draw the positions: a single axis, two axes of which one is attended along, or two axes to attend along."""
    rows, columns = (small[2],), (small[3],)
    if rng.random() < 0.7:
        return {"rows": rows, "columns": columns}
    if rng.random() < 0.3:
        return {"rows": (*rows, FURTHER), "columns": (*columns, 1)}
    where = {"axis": int(rng.choice([1, 2])), "negative": bool(rng.random() < 0.5)}
    return {"rows": rows, "columns": columns, "between": FURTHER, **where}


def _key_dim(rng: np.random.Generator, dtype: str, wide: list[int], is_taken: bool) -> int:
    """Draw a head size. In float64, the built-in's scale is exact for this head size."""
    exact = [size for size in EXACT if not (is_taken and size == FURTHER)]
    return int(rng.choice(exact)) if dtype == "float64" else wide.pop()


def _mask(rng: np.random.Generator, between: bool) -> str:
    return str(rng.choice(MASK_SHAPES_BETWEEN if between else MASK_SHAPES))


def _paddings(rng: np.random.Generator, with_key: bool) -> tuple[str, ...]:
    names = PADDINGS if with_key else PADDINGS[:2]
    chosen = [name for name in names if rng.random() < 0.6] or ["value_mask"]
    carried = rng.random() < 0.5
    return tuple("+" + name if carried else name for name in chosen)


def _sometimes(rng: np.random.Generator, probability: float, value: Any) -> Any:
    return value if rng.random() < probability else None
