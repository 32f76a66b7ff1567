"""The properties that outputs do not show: the sums of the scores, and the gradients of the weights."""

from typing import Any

import numpy as np
from keras import ops

from kmha.verify.probing import scores
from kmha.verify.probing.baseline import Baseline, shortened
from kmha.verify.probing.calls import Callee
from kmha.verify.probing.inputs import CannotTry
from kmha.verify.probing.report import Property
from kmha.verify.probing.sublayers import is_keras, paths

MAX_NAMED = 3  # maximum number of weights to name


def rows(baseline: Baseline) -> list[Property]:
    """Check that the attention scores are not negative, and that each query's scores sum to one."""
    found = {name: baseline.results[name] for name in baseline.scores}
    try:
        found |= baseline.callee.scores(baseline.inputs)
    except CannotTry as reason:
        if not found:
            return [Property("rows", None, None, shortened(str(reason)))]
    if not found:
        why = "it returns no scores, and none of its layers takes `return_attention_scores`"
        return [Property("rows", None, None, why)]
    thing = baseline.callee.thing
    axes = {name or layer.name: _attended(layer) for name, layer in paths(thing)}
    axes |= dict.fromkeys(baseline.scores, _attended(thing))
    worst, where = 0.0, ""
    for name, x in found.items():
        away, place = scores.distance(x, axes[name.partition(" (")[0]])
        if away > max(worst, baseline.tolerance):
            hint = scores.sums_along(x, baseline.tolerance)
            where = f"{name}{' ' if place[0] != '[' else ''}{place}" + (f"; {hint}" if hint else "")
        worst = max(worst, away)
    return [Property("rows", worst <= baseline.tolerance, worst, where)]


def _attended(layer: Any) -> int:
    """Return the number of axes of key positions in a layer's scores."""
    axes = getattr(layer, "attention_axes", None) or getattr(layer, "_attention_axes", None)
    return len(axes) if isinstance(axes, list | tuple) else 1


def gradient(baseline: Baseline) -> list[Property]:
    """Check that every trained weight has a nonzero gradient, except key biases, whose gradient must be zero."""
    weights = baseline.callee.weights
    if not weights:
        known = is_keras(baseline.callee.thing)
        why = "it has no trainable weights" if known else "the weights of a function are unknown"
        return [Property("gradient", None, None, why)]
    try:
        gradients = baseline.callee.gradients(baseline.inputs, _upstream(baseline))
    except Exception as error:
        return [Property("gradient", None, None, shortened(f"{type(error).__name__}: {error}"))]
    sizes = [float(np.max(np.abs(x), initial=0.0)) for x in gradients]
    largest = max([size for size in sizes if np.isfinite(size)], default=0.0) or 1.0
    groups: dict[str, float] = {}
    for weight, size in zip(weights, sizes, strict=True):
        group = weight.path.rpartition("/")[0]
        groups[group] = max(groups.get(group, 0.0), size)
    missing, excused, smallest = [], [], 1.0
    for weight, size in zip(weights, sizes, strict=True):
        bias = weight.path.endswith("bias") and size <= baseline.tolerance * groups[weight.path.rpartition("/")[0]]
        if bias and (size > 0 or "key" in weight.path) and _changes_nothing(baseline, weight):
            excused.append(weight.path)
            continue
        if size == 0 or not np.isfinite(size):
            missing.append(weight.path if size == 0 else f"{weight.path} (NaN)")
            size = 0.0
        smallest = min(smallest, size / largest)
    note = f"except {_listed(excused)}: no softmax depends on it" if excused else ""
    where = f"no gradient for {_listed(missing)}" if missing else note
    return [Property("gradient", not missing, smallest, where)]


def _upstream(baseline: Baseline) -> dict[str, np.ndarray]:
    """Return random factors for the outputs, with zeros at padding."""
    inputs = baseline.inputs
    results = baseline.results if baseline.callee.layer is None else Callee(baseline.callee.thing).run(inputs)
    known, upstream = set(inputs.lengths().values()), {}
    for name, x in results.items():
        if x.dtype.kind in "fV":
            upstream[name] = baseline.rng.normal(size=x.shape)
            if name not in baseline.scores and x.ndim > 1 and x.shape[0] == inputs.batch and x.shape[1] in known:
                upstream[name][~inputs.token_mask(x.shape[1])] = 0
    if not upstream:
        raise ValueError("no output has floating-point numbers")
    return upstream


def _changes_nothing(baseline: Baseline, weight: Any) -> bool:
    """Return whether the outputs stay the same when a weight changes."""
    before = ops.convert_to_numpy(weight).copy()
    try:
        weight.assign(before + baseline.rng.normal(size=before.shape).astype(before.dtype))
        return baseline.effect(baseline.run(baseline.inputs), baseline.base).size <= baseline.tolerance
    finally:
        weight.assign(before)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
