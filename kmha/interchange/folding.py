"""Fold weights that a layout has no place for into others, where that is exact, and refuse the rest with a reason."""

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kmha.interchange.canonical import Weights
from kmha.interchange.errors import LayoutError, Made, listed
from kmha.interchange.layout import Layout

REASONS = {
    "query/bias": "a query bias adds b_q·k to the logit of every key k, and that differs from key to key",
    "key/bias": "it adds the same q·b_k to all keys of a query, so it changes no softmax: `fold=True` drops it",
    "value/bias": "rows of scores sum to one, so it adds b_v W_o to every output: `fold=True` moves it there",
    "attention_output/bias": "no other weight adds a constant to every output",
    "gate/kernel": "the gate multiplies the mixed values by a sigmoid of the query, and no other weight does that",
    "gate/bias": "the gate multiplies the mixed values by a sigmoid of the query, and no other weight does that",
}


def fit(weights: Weights, layout: Layout, fold: bool) -> tuple[Weights, list[str]]:
    """Return canonical weights that all have a place in the layout, and notes about the weights that had no place.

    Args:
        weights: Weights in the canonical layout.
        layout: Layout to convert to.
        fold: If True, weights without a place are folded into others where that is exact: a key bias is dropped, a
            value bias moves into the output bias, and key and value heads that several queries share are repeated. A
            bias of zeros is always left out, and a scale that is a power of two is always folded.

    Raises:
        LayoutError: Weights have no place and are not folded.
    """
    fitted, notes, reasons = dict(weights), [], defaultdict(list)
    for attention in attentions(weights):
        notes += _repeat_heads(fitted, attention, layout, fold)
        notes += _rescale(fitted, attention, layout, fold)
    for path in [path for path in fitted if layout.entry_of(path) is None]:
        if note := _folded(fitted, path, layout, fold):
            del fitted[path]
            notes.append(note)
        else:
            reasons[_reason(fitted, path, layout)].append(path)
    if reasons:
        sentences = (f"No place for {listed(paths)}: {why}." for why, paths in reasons.items())
        raise LayoutError(f"The layout `{layout.name}` cannot hold all of these weights. {' '.join(sentences)}")
    return fitted, notes


def attentions(weights: Weights) -> Iterator[str]:
    """Yield the prefix of each attention layer's paths, with its slash: "" or "layer_0/self_attention/"."""
    for path in weights:
        if path == "query/kernel" or path.endswith("/query/kernel"):
            yield path.removesuffix("query/kernel")


def _folded(weights: Weights, path: str, layout: Layout, fold: bool) -> str | None:
    """Fold a weight into others in place and return a note, or return None if folding is not exact or not wanted."""
    if path.rsplit("/", 1)[-1] in ("bias", "beta") and not np.any(weights[path]):
        return f"`{path}` is left out, because all of it is zero."
    attention = "/".join([*path.split("/")[:-2], ""])
    if path == f"{attention}key/bias" and fold:
        return f"`{path}` is dropped: it adds the same number to the logits of all keys, which changes no softmax."
    has_place = layout.entry_of(f"{attention}attention_output/bias") and f"{attention}gate/kernel" not in weights
    if path == f"{attention}value/bias" and fold and has_place:
        _move_value_bias(weights, attention)
        return (
            f"`{path}` has moved into `{attention}attention_output/bias` as b_v W_o. The output is the same where rows "
            "of scores sum to one, so not in training with dropout, nor in rows with nothing to attend to."
        )
    return None


def _move_value_bias(weights: Weights, attention: str) -> None:
    """Set the output bias to b_o plus the sum over heads of b_v W_o, computed in float64."""
    bias, kernel = weights[f"{attention}value/bias"], weights[f"{attention}attention_output/kernel"]
    per_query = np.repeat(bias, len(kernel) // len(bias), axis=0).astype("float64")
    moved = np.einsum("HO,HOE->E", per_query, kernel.astype("float64"))
    output = f"{attention}attention_output/bias"
    weights[output] = (moved + weights[output].astype("float64") if output in weights else moved).astype(bias.dtype)


def _repeat_heads(weights: Weights, attention: str, layout: Layout, fold: bool) -> list[str]:
    """Repeat shared key and value heads until each query head has its own, if the layout cannot share them."""
    heads, groups = (len(weights.get(f"{attention}{role}/kernel", ())) for role in ("query", "key"))
    place = layout.entry_of(f"{attention}key/kernel")
    can_share = place is not None and ("G",) in place[0].pattern.canonical
    if can_share or groups in (0, heads) or heads % groups:
        return []
    if not fold:
        raise LayoutError(
            f"The layout `{layout.name}` needs as many heads for keys and values as for queries. Received: {heads} in "
            f"`{attention}query`, {groups} in `{attention}key`. `fold=True` repeats each of the {groups}, which gives "
            "the same output with more weights."
        )
    shared = [f"{attention}{role}/{kind}" for role in ("key", "value") for kind in ("kernel", "bias")]
    for path in [path for path in shared if path in weights]:
        Made(weights).add(path, weights[path].nbytes * (heads // groups))
        weights[path] = np.repeat(weights[path], heads // groups, axis=0)
    return [f"`{attention}key` and `{attention}value`: each of {groups} heads is repeated {heads // groups} times."]


def scales(weights: Weights) -> Iterator[tuple[str, np.ndarray]]:
    """Yield path and value of `query/scale` for every attention layer, if the layout does not divide logits by √O."""
    for attention in attentions(weights):
        yield f"{attention}query/scale", np.sqrt(np.float64(weights[f"{attention}query/kernel"].shape[-1]))


def _rescale(weights: Weights, attention: str, layout: Layout, fold: bool) -> list[str]:
    """Fold the scale into the query's kernel and bias where only one of the two layouts divides its logits by √O."""
    size = weights[f"{attention}query/kernel"].shape[-1]
    scale = float(weights.pop(f"{attention}query/scale", 1.0))
    factor = scale / math.sqrt(size) if layout.unscaled else scale
    if factor == 1:
        return []
    ours, theirs = ("does not divide", "does") if layout.unscaled else ("divides", "does not")
    why = (
        f"`{attention}query` must be {'divided' if factor < 1 else 'multiplied'} by √O, O={size}: `{layout.name}` "
        f"{ours} its logits by √O, and the source {theirs}"
    )
    exact = math.frexp(factor)[0] == 0.5
    if not exact and not fold:
        raise LayoutError(f"{why}. That rounds every number once. Give `fold=True` to do it.")
    for path in (f"{attention}query/kernel", f"{attention}query/bias"):
        if path in weights:
            weights[path] = (weights[path].astype("float64") * factor).astype(weights[path].dtype)
    return [f"{why}. This was done {'exactly' if exact else 'and rounded every number once'}."]


def _reason(weights: Weights, path: str, layout: Layout) -> str:
    attention, end = "/".join([*path.split("/")[:-2], ""]), "/".join(path.split("/")[-2:])
    if end in layout.refusals:
        return layout.refusals[end].rstrip(".")
    if end not in REASONS or layout.entry_of(f"{attention}query/kernel") is None:
        held = [entry.path for entry in layout.entries]
        return f"it has no such weights. It has {listed(held)}"
    if end == "value/bias" and f"{attention}gate/kernel" in weights:
        return "the gate multiplies it, so it cannot move into the output bias"
    if end == "value/bias" and layout.entry_of(f"{attention}attention_output/bias") is None:
        return REASONS["attention_output/bias"]
    return REASONS[end]
