"""The expected results of a case. Inputs are folded to the reference's axes (B, T), and results are unfolded."""

import dataclasses

import keras
import numpy as np

from kmha.verify import backends, reference
from kmha.verify.comparing.cases import Case


@dataclasses.dataclass(frozen=True)
class Expected:
    """The reference's results, in the shapes of the layer's results.

    Attributes:
        results: Arrays, keyed by name: "output", "scores", and gradients as "d query", "d query/kernel" and so on.
        upstream: The factor in Σ output · upstream, the sum whose gradients are in `results`.
        attending: Boolean mask of the output's positions, True where all heads have something to attend to.
    """

    results: dict[str, np.ndarray]
    upstream: np.ndarray
    attending: np.ndarray


def compute(case: Case, kept: np.ndarray | None = None, spare_empty_rows: bool = False) -> Expected:
    """Compute the expected results of a case with the reference.

    Args:
        case: Case to compute.
        kept: Dropout factors of the scores, in the shape of the layer's scores, or `None` for no dropout.
        spare_empty_rows: Whether Σ output · upstream leaves out rows with nothing to attend to.
    """
    inputs, weights, upstream = case.inputs(), case.weights(), case.upstream()
    allowed = _allowed(case)
    attending = _unfold(case, np.all(np.any(allowed, axis=3), axis=1), case.rows)
    if spare_empty_rows:
        upstream = upstream * attending.reshape(attending.shape + (1,) * (upstream.ndim - attending.ndim))
    folded = {name: _fold(case, array, array.shape[-1:]) for name, array in inputs.items()}
    flat = {**weights, "attention_output/kernel": _flat(weights["attention_output/kernel"], 2)}
    if case.use_bias:
        flat["attention_output/bias"] = _flat(weights["attention_output/bias"], 0)
    value = folded.get("value", folded["query"])
    arguments = (folded["query"], folded.get("key", value), value, flat, allowed)
    kept = None if kept is None else kept.reshape(allowed.shape)
    features = upstream.shape[case.rank - 1 :]
    output, scores = reference.attention(*arguments, kept)
    gradients = reference.gradients(_flat(_fold(case, upstream, features), 2), *arguments, kept)
    if "key" not in inputs:
        gradients["value"] += gradients.pop("key")
    if "value" not in inputs:
        gradients["query"] += gradients.pop("value")
    results = {"output": _unfold(case, output.reshape(*output.shape[:2], *features), case.rows)}
    if case.return_scores:
        results["scores"] = scores.reshape(scores_shape(case))
    for name, gradient in gradients.items():
        if name in inputs:
            gradient = _unfold(case, gradient, case.rows if name == "query" else case.columns)
        results[f"d {name}"] = gradient.reshape({**inputs, **weights}[name].shape)
    return Expected(results, upstream, attending)


def scores_shape(case: Case) -> tuple[int, ...]:
    """Return the scores' shape (B, X, H, T, S), without X if the case has no such axis."""
    return (*_batch(case), case.heads, *case.rows, *case.columns)


def _batch(case: Case) -> tuple[int, ...]:
    return (case.batch, case.between) if case.between else (case.batch,)


def _flat(array: np.ndarray, keep: int) -> np.ndarray:
    """Join all axes of `array` after the first `keep` into one."""
    return array.reshape(*array.shape[:keep], -1)


def _fold(case: Case, x: np.ndarray, features: tuple[int, ...]) -> np.ndarray:
    """Fold (B, positions, features) into (B', T, features), where the axis X joins the batch."""
    if case.between and case.axis == 1:
        x = np.swapaxes(x, 1, 2)
    batch = int(np.prod(_batch(case)))
    return x.reshape(batch, -1, *features)


def _unfold(case: Case, x: np.ndarray, positions: tuple[int, ...]) -> np.ndarray:
    """Unfold an array (B', T, …), which is the inverse of `_fold`."""
    x = x.reshape(*_batch(case), *positions, *x.shape[2:])
    return np.swapaxes(x, 1, 2) if case.between and case.axis == 1 else x


def _allowed(case: Case) -> np.ndarray:
    """Return a mask (B', H, T, S), True where t may attend to s under all masks of a case."""
    rows, columns = int(np.prod(case.rows)), int(np.prod(case.columns))
    batch = int(np.prod(_batch(case)))
    allowed = np.ones((batch, case.heads, rows, columns), bool)
    for name, mask in case.masks().items():
        if name == "attention_mask":
            allowed &= _broadcast(case, mask).reshape(allowed.shape)
        else:
            padding = _fold(case, mask, ())
            if "query" in name:
                allowed &= padding[:, None, :, None]
            if "query" not in name or (case.self_attention and name.startswith("+")):  # one tensor carries one mask
                allowed &= padding[:, None, None, :]
    for t, s in np.ndindex(rows, columns):
        if case.use_causal_mask and s > t:
            allowed[:, :, t, s] = False
        if case.sliding_window is not None and abs(t - s) >= case.sliding_window:
            allowed[:, :, t, s] = False
    return allowed


def _broadcast(case: Case, mask: np.ndarray) -> np.ndarray:
    """Broadcast an attention mask to all axes of the scores."""
    shape = scores_shape(case)
    positions = len(case.rows) + len(case.columns)
    while mask.ndim < len(shape):
        mask = np.expand_dims(mask, mask.ndim - positions)
    return np.broadcast_to(mask, shape)


def kept_by_dropout(case: Case, mode: str) -> np.ndarray | None:
    """Return Keras' dropout factors for the case's seed in this mode, or `None` if nothing is dropped."""
    if not (case.dropout and case.training):
        return None
    layer = keras.layers.Dropout(case.dropout, seed=case.seed, dtype=case.dtype)
    ones = keras.ops.ones(scores_shape(case), dtype=layer.compute_dtype)
    call = backends.current().in_mode(mode, lambda x: layer(x, training=True))
    return keras.ops.convert_to_numpy(call(ones)).astype("float64")
