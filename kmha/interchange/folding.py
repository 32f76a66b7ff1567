"""What a layout has no place for: what can be folded into the rest exactly, and the reasons for what cannot."""

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kmha.interchange.canonical import Weights
from kmha.interchange.errors import LayoutError, listed
from kmha.interchange.layout import Layout

REASONS = {
    "query/bias": "a query bias adds b_q·k to the score of every key k, which differs from key to key",
    "key/bias": "it changes no softmax, for it adds the same q·b_k to all keys of a query: `fold=True` drops it",
    "value/bias": "rows of scores sum to one, so that it adds b_v W_o to every output: `fold=True` moves it there",
    "attention_output/bias": "nothing else adds a constant to every output",
    "gate/kernel": "the gate multiplies what attention mixes by a sigmoid of the query, and no other weight does",
    "gate/bias": "the gate multiplies what attention mixes by a sigmoid of the query, and no other weight does",
}


def fit(weights: Weights, layout: Layout, fold: bool) -> tuple[Weights, list[str]]:
    """Canonical weights that all have a place in the layout, and notes about those that had none.

    Args:
        weights: in the canonical layout.
        layout: where they shall go.
        fold: whether what has no place may be folded into the rest where that is exact: a key bias is dropped, a value
            bias moves into the output bias, heads of keys and values that serve several queries are repeated. A bias
            of zeros is left out in any case, and a scale that is a power of two folded in any case.

    Raises:
        LayoutError: a weight has no place, and is not, or cannot be, folded; all such weights with the reasons.
    """
    fitted, notes, reasons = dict(weights), [], defaultdict(list)
    for attention in attentions(weights):
        notes += _repeat_heads(fitted, attention, layout, fold)
        notes += _rescale(fitted, attention, layout, fold)
    for path in [path for path in fitted if layout.entry_of(path) is None]:
        note = _folded(fitted, path, layout, fold)
        if note:
            del fitted[path]
            notes.append(note)
        else:
            reasons[_reason(fitted, path, layout)].append(path)
    if reasons:
        sentences = (f"No place for {listed(paths)}: {why}." for why, paths in reasons.items())
        raise LayoutError(f"The layout `{layout.name}` cannot hold all of these weights. {' '.join(sentences)}")
    return fitted, notes


def attentions(weights: Weights) -> Iterator[str]:
    """What stands before the paths of each attention, with its slash: "", or "layer_0/self_attention/"."""
    for path in weights:
        if path == "query/kernel" or path.endswith("/query/kernel"):
            yield path.removesuffix("query/kernel")


def _folded(weights: Weights, path: str, layout: Layout, fold: bool) -> str | None:
    """Folds a weight into others, which changes `weights`; the note, or None if that is not exact or not wanted."""
    if path.rsplit("/", 1)[-1] in ("bias", "beta") and not np.any(weights[path]):
        return f"`{path}` is left out: all of it is zero."
    attention = "/".join([*path.split("/")[:-2], ""])
    if path == f"{attention}key/bias" and fold:
        return f"`{path}` is dropped: it adds the same to the scores of all keys, which changes no softmax."
    if path == f"{attention}value/bias" and fold and _takes_value_bias(weights, attention, layout):
        _move_value_bias(weights, attention)
        return (
            f"`{path}` has moved into `{attention}attention_output/bias` as b_v W_o: the same where rows of scores sum "
            "to one, so not with dropout in training, nor in rows with nothing to attend to."
        )
    return None


def _takes_value_bias(weights: Weights, attention: str, layout: Layout) -> bool:
    gated = f"{attention}gate/kernel" in weights
    return not gated and layout.entry_of(f"{attention}attention_output/bias") is not None


def _move_value_bias(weights: Weights, attention: str) -> None:
    """b_o + the sum over heads of b_v W_o, summed in float64."""
    bias, kernel = weights[f"{attention}value/bias"], weights[f"{attention}attention_output/kernel"]
    per_query = np.repeat(bias, len(kernel) // len(bias), axis=0).astype("float64")
    moved = np.einsum("HO,HOE->E", per_query, kernel.astype("float64"))
    output = f"{attention}attention_output/bias"
    weights[output] = (moved + weights[output].astype("float64") if output in weights else moved).astype(bias.dtype)


def _repeat_heads(weights: Weights, attention: str, layout: Layout, fold: bool) -> list[str]:
    """Gives every query head its own key and value head, if the layout knows no others."""
    heads, groups = (len(weights.get(f"{attention}{role}/kernel", ())) for role in ("query", "key"))
    place = layout.entry_of(f"{attention}key/kernel")
    shares = place is not None and ("G",) in place[0].pattern.canonical
    if shares or groups in (0, heads) or heads % groups:
        return []
    if not fold:
        raise LayoutError(
            f"The layout `{layout.name}` has as many heads for keys and values as for queries, and `{attention}query` "
            f"has {heads}, `{attention}key` {groups}. `fold=True` repeats each of the {groups}, which gives the same "
            "output with more weights."
        )
    for role in ("key", "value"):
        for path in (f"{attention}{role}/kernel", f"{attention}{role}/bias"):
            if path in weights:
                weights[path] = np.repeat(weights[path], heads // groups, axis=0)
    return [
        f"`{attention}key` and `{attention}value`: each of {groups} heads is repeated for {heads // groups} queries."
    ]


def scales(weights: Weights) -> Iterator[tuple[str, np.ndarray]]:
    """`query/scale` of every attention, for weights of a layout whose logits are not divided by √O."""
    for attention in attentions(weights):
        yield f"{attention}query/scale", np.sqrt(np.float64(weights[f"{attention}query/kernel"].shape[-1]))


def _rescale(weights: Weights, attention: str, layout: Layout, fold: bool) -> list[str]:
    """Folds what makes up for √O, by which all but one side divide the logits, into the query's kernel and bias."""
    size = weights[f"{attention}query/kernel"].shape[-1]
    scale = float(weights.pop(f"{attention}query/scale", 1.0))
    factor = scale / math.sqrt(size) if layout.unscaled else scale
    if factor == 1:
        return []
    ours, theirs = ("not ", "") if layout.unscaled else ("", " not")
    why = (
        f"`{attention}query` has to be {'divided' if factor < 1 else 'multiplied'} by √O, O={size}: the logits of "
        f"`{layout.name}` are {ours}divided by it, and those of the source are{theirs}"
    )
    exact = math.frexp(factor)[0] == 0.5
    if not exact and not fold:
        raise LayoutError(f"{why}. That rounds every number once; `fold=True` does it.")
    for path in (f"{attention}query/kernel", f"{attention}query/bias"):
        if path in weights:
            weights[path] = (weights[path].astype("float64") * factor).astype(weights[path].dtype)
    return [f"{why}. Done, {'exactly' if exact else 'with every number rounded once'}."]


def _reason(weights: Weights, path: str, layout: Layout) -> str:
    attention, end = "/".join([*path.split("/")[:-2], ""]), "/".join(path.split("/")[-2:])
    if end in layout.refusals:
        return layout.refusals[end].rstrip(".")
    if end not in REASONS or layout.entry_of(f"{attention}query/kernel") is None:
        held = [entry.path for entry in layout.entries]
        return f"it has no such weights, but {listed(held)}"
    if end == "value/bias" and f"{attention}gate/kernel" in weights:
        return "the gate multiplies it, so that it cannot move into the output bias"
    if end == "value/bias" and layout.entry_of(f"{attention}attention_output/bias") is None:
        return REASONS["attention_output/bias"]
    return REASONS[end]
