"""Evidence for a block's design choices in the layer itself: its activation functions, attributes and source code.

The evidence only narrows a search. The numbers decide.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.chains.blocks import ACTIVATIONS
from kmha.verify.choices import CHOICES, combinations
from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import METHODS
from kmha.verify.diagnosing.jax_adapters import Held

PROBE = np.linspace(-3.0, 3.0, 13)
CLOSE = 1e-4  # tells all activations apart, in float32 too
ATTRIBUTES = re.compile(r"act|relu|elu|silu|swish|nonlin|^fn$|^f$")
CAUSAL = r"(?i)\btri\(|tri[lu]|causal|band_part|look_?ahead|autoregress|subsequent|future|arange\(.*[<>]"
# Patterns that the source code of a layer with these choices contains.
NEEDED = {
    "unbiased-deviation": r"std\(|unbiased|correction",
    "root-mean-square": r"(?i)rms|rsqrt|root_mean|mean\(.*(\*\*\s*2|square|pow)|norm\(",
    **dict.fromkeys(("always-causal", "causal-unless-masked"), CAUSAL),
}
ROTATION = re.compile(rf"(?i){naming.ROTARY.pattern}|\bcos\b|freqs_cis|\bangles?\b")
GELUS = {"gelu", "gelu_tanh"}
FURTHER_NORMS = {"final-norm", "sandwich-norm", "norm-of-memory"}  # choices that use the first of the further norms
IN_SOURCE = (
    ("gelu_tanh", r"approximate\s*=\s*(True|['\"]tanh)|gelu_new|0\.044715"),
    ("gelu", r"gelu|\berf\b"),
    ("silu", r"silu|swish"),
    ("relu", r"\brelu|\.relu|ReLU|maximum\(|clip\(|clamp\("),
)


def likely_combinations(
    chain: str, layer: Any, parts: Sequence[Any], trial: Trial, expected: Sequence[str] = ()
) -> list[tuple[str, ...]]:
    """Return the combinations of choices that the layer likely makes, the fewest choices first.

    Args:
        chain: Name of the layer's chain.
        layer: Layer.
        parts: Layers inside the layer.
        trial: Trial with the layer's weights.
        expected: Ids of the choices that the layer must make.
    """
    found = activations(layer, parts, trial.more.get("activation", "relu"))
    found |= GELUS if found & GELUS else set()  # a layer may ask its function for the approximation, or may not
    found = {name for name in found if not name or f"activation-{name}" in CHOICES}  # tanh is a mistake, not a choice
    ids = {f"activation-{name}" for name in found if name}
    code = code_of(layer, parts)
    excluded = {id for id, pattern in NEEDED.items() if not re.search(pattern, code)} if code else set()
    if any(CHOICES[id].group == "activation" for id in expected):
        found = set()
    likely = [each for each in combinations(chain, trial, expected) if _agrees(each, ids, bool(found))]
    likely = [each for each in likely if not excluded & {*each}]
    has_more = any(name.startswith("extra1/") for name in trial.weights)  # which the layer need not use
    likely = [each for each in likely if len(FURTHER_NORMS & {*each}) <= has_more] or likely
    return [each for each in likely if not any(CHOICES[id].group == "order" for id in each)] or [tuple(expected)]


def code_of(layer: Any, parts: Sequence[Any]) -> str:
    """Return the source code of a layer, of the layers inside it and of their helpers, without those of frameworks."""
    kinds = {type(part.module if isinstance(part, Held) else part) for part in (layer, *parts)}
    return "".join(frameworks.source_with_helpers(kind) for kind in kinds if frameworks.is_own(kind))


def _agrees(combination: Sequence[str], ids: set[str], known: bool) -> bool:
    """Return whether a combination has one of these activations, or the usual one if `ids` is empty."""
    mine = {id for id in combination if CHOICES[id].group == "activation"}
    return not known or (mine <= ids and bool(mine) == bool(ids))


def activations(layer: Any, parts: Sequence[Any], usual: str) -> set[str]:
    """Return the names of the activations in a layer, or {""} if there is only the usual one. Empty if unknown."""
    found = {name for part in (layer, *parts) for name in _of_attributes(part)}
    found = found or {name for part in (layer, *parts) for name in _of_source(part)}
    return found - {usual} or ({""} if found else set())


def _of_attributes(part: Any) -> Iterator[str]:
    """Yield the activations that a layer is, or that its attributes are."""
    attributes = dict(getattr(part, "__dict__", {}))  # weights may be in a list or dict
    if hasattr(part, "parameters") and not list(part.parameters()):
        attributes["activation"] = part
    for name, value in attributes.items():
        if not callable(value) or not ATTRIBUTES.search(name.lower()) or isinstance(value, type):
            continue
        found = activation_of(value)
        if found and found != "linear":
            yield found


def activation_of(function: Any) -> str | None:
    """Return the name of an activation function, by calling it, or `None`.

    >>> activation_of(lambda x: x * (x > 0))
    'relu'
    """
    for framework in (*frameworks.likely_frameworks(function), "keras", "torch"):
        try:
            result = frameworks.to_numpy(function(frameworks.to_tensor(PROBE, framework, "float32")))
        except (Exception, SystemExit):  # untrusted code may raise anything
            continue
        for name, right in ACTIVATIONS.items():
            if np.shape(result) == PROBE.shape and np.abs(result - right(PROBE)).max() < CLOSE:
                return name
    return None


def _of_source(part: Any) -> Iterator[str]:
    """Yield the activations that the source code of a layer's call names."""
    method = next((m for name in METHODS if (m := getattr(type(part), name, None)) is not None), None)
    if method is None or not frameworks.is_own(type(part)):
        return
    source = frameworks.source_of(method)
    found = [name for name, pattern in IN_SOURCE if re.search(pattern, source)]
    yield from found[:1]
