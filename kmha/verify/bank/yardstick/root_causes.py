"""The root cause that the effects in a model mean, in the words of DEForm, and a row for each root cause.

DEForm's 12 components are DEFault++'s categories. Seven of them (masking, qkv, score, positional, kernel, variant,
kv_cache) are the categories of the taxonomy of attention faults.
"""

import re
from collections import Counter
from collections.abc import Sequence

from kmha.verify.bank.yardstick.models import component

Cause = tuple[str, str]  # category and root cause
Finding = tuple[str, str]  # path and effect
UNKNOWN: Cause = ("unknown", "unknown")

# What only training, or the choice of a kernel, shows. The calls of a layer give the same numbers.
OUTSIDE: dict[str, str] = {
    "dynamic_parameter_registration": "weights that get no gradient compute the same; `probe` checks gradients",
    "regularization": "a setting of the optimizer",
    "gradient_clipping": "a setting of the optimizer",
    "silent_fallback": "a slower kernel with the same numbers",
    "hardware_incompatibility": "a slower kernel with the same numbers",
    "feature_constraints": "a dropout rate, which inference does not use",
}

_CACHE = (
    ("without the newest", "cache_invalidation"),
    ("shifted", "cache_position"),
    ("truncated", "memory_layout"),
    ("leaks", "distributed_synchronization"),
)
# (component, effect, category, root cause), as patterns. The first row that matches decides.
_WEIGHTS = (
    ("output", "scaled", "output", "output_scaling"),
    ("output", "zero", "output", "output_dimension"),
    ("output", "", "output", "output_type"),
    ("ffn|merge", "scaled", "ffn", "weight_scaling"),
    ("ffn|merge", "partly zero", "ffn", "neuron_dropout"),
    ("ffn|merge", "", "ffn", "weight_initialization"),
    ("qkv", "zero", "qkv", "parameter_initialization"),
    ("qkv", "", "qkv", "head_interaction"),
    ("embedding", "zero", "embedding", "input_initialization"),
    ("embedding|segment", "", "embedding", "input_type"),
    ("layernorm", "shifted", "layernorm", "bias_parameter"),
    ("layernorm", "", "layernorm", "scale_parameter"),
)
_RESULTS = (
    ("positional", "zero", "positional", "indexing"),
    ("positional", "shifted", "positional", "relative_position"),
    ("positional", "truncated", "positional", "interpolation"),
    ("output", "scaled", "output", "output_scaling"),
    ("output", "exchanged", "output", "output_dimension"),
    ("attention", "zero", "variant", "variant_configuration"),
    ("attention", "dropped out|noisy", "score", "implementation"),
    ("attention", "float16", "score", "precision_handling"),
    ("", "zero", "residual", "skip_connection"),
    ("", "scaled", "residual", "residual_scaling"),
    ("", "noisy|dropped out", "residual", "residual_path"),
)
_CORE = (
    ("scale-", "score", "normalization"),
    ("mask-transposed|mask-tiled|mask-repeated|mask-of-|mask-items|mask changed", "masking", "mask_generation"),
    ("causal-always", "variant", "dynamic_dispatch"),
    ("causal-|mask partly", "masking", "dynamic_mask"),
    ("mask|padding", "masking", "mask_application"),
)


def cause(findings: Sequence[Finding], cached: str = "") -> Cause:
    """Return the category and the root cause that the effects mean.

    Args:
        findings: Path and effect of each module that does not compute what it computed before.
        cached: Effect in cached decoding, which counts if no module is wrong without a cache.

    >>> cause([("bert.encoder.layer.0.attention.self.query", "weights zero")])
    ('qkv', 'parameter_initialization')
    >>> cause([], "cache shifted by one")
    ('kv_cache', 'cache_position')
    """
    if not findings:
        return next((("kv_cache", found) for words, found in _CACHE if words in cached), UNKNOWN)
    votes = Counter(_vote(path, effect, _place(findings)) for path, effect in findings)
    known = [each for each in votes.most_common() if each[0] != UNKNOWN]
    return known[0][0] if known else UNKNOWN


def _place(findings: Sequence[Finding]) -> str:
    """Return the component that all findings belong to, "attention" if all are inside attention, or ""."""
    components = {component(path) for path, _ in findings}
    if len(components) == 1 and components <= {"positional", "output"}:
        return components.pop()
    return "attention" if all(re.search(r"attention|attn", path) for path, _ in findings) else ""


def _vote(path: str, effect: str, place: str) -> Cause:
    if effect == "epsilon changed":
        return "layernorm", "stability_parameter"
    if effect == "activation changed":
        return "ffn", "activation_function"
    if effect.startswith("weights "):
        return _first(_WEIGHTS, component(path), effect)
    if effect.startswith("result "):
        return _first(_RESULTS, place, effect)
    return next(((category, found) for words, category, found in _CORE if re.match(words, effect)), UNKNOWN)


def _first(rows: Sequence[tuple[str, str, str, str]], place: str, effect: str) -> Cause:
    for where, words, category, found in rows:
        if (not where or re.fullmatch(where, place)) and re.search(words, effect):
            return category, found
    return UNKNOWN
