"""Random cases over the whole argument space of the layer, the same for the same seed."""

import dataclasses
from typing import Any

import numpy as np

from kmha.verify.comparing.cases import EXACT, FURTHER, MASK_SHAPES, MASK_SHAPES_BETWEEN, PADDINGS, SMALL, WIDE, Case

# The dtypes of a run in turn: most cases in the widest, where a wrong term cannot hide in the rounding.
OTHERS = {3: "float32", 5: "mixed_float16", 7: "mixed_bfloat16"}


def dtype_of(index: int, widest: str) -> str:
    """The dtype of case number `index` where none is asked for."""
    return OTHERS.get(index % 8, widest)


def case(seed: int, index: int, dtype: str = "float64") -> Case:
    """The case number `index` of the run with `seed`."""
    rng = np.random.default_rng((seed, index))
    small, wide = [int(n) for n in rng.permutation(SMALL)], [int(n) for n in rng.permutation(WIDE)]
    if rng.random() < 0.15:  # B, H, T or S may be 1, but seldom: one key gives every layer the same scores
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
    # Blocks of two or three queries. XLA numbers what dropout draws in its own way, so that no mask is known for them.
    possible = not drawn.return_scores and not (drawn.dropout and drawn.training)
    blocks = rng.random() < 0.4 and possible
    return dataclasses.replace(drawn, path=f"blocked:{rng.integers(2, 4)}") if blocks else drawn


def _shape(rng: np.random.Generator, small: list[int]) -> dict[str, Any]:
    """Positions: along one axis; along one of two; or along two."""
    rows, columns = (small[2],), (small[3],)
    if rng.random() < 0.7:
        return {"rows": rows, "columns": columns}
    if rng.random() < 0.3:
        return {"rows": (*rows, FURTHER), "columns": (*columns, 1)}
    where = {"axis": int(rng.choice([1, 2])), "negative": bool(rng.random() < 0.5)}
    return {"rows": rows, "columns": columns, "between": FURTHER, **where}


def _key_dim(rng: np.random.Generator, dtype: str, wide: list[int], is_taken: bool) -> int:
    """Any head size; in float64 one whose scale the built-in has exactly."""
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
