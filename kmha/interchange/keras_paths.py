"""How Keras numbers variables in files: `layers/multi_head_attention/query_dense/vars/0` for `query/kernel`."""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from kmha.interchange.canonical import Weights
from kmha.interchange.errors import listed
from kmha.interchange.file_errors import FileError

# Which attribute of an attention layer holds the projection of this name.
_PROJECTIONS = {
    "query": "query_dense",
    "key": "key_dense",
    "value": "value_dense",
    "gate": "_gate_dense",
    "attention_output": "output_dense",
}
PATHS_OF_NAMES = {path: name for name, path in _PROJECTIONS.items()} | {
    "_query_dense": "query",
    "_key_dense": "key",
    "_value_dense": "value",
    "_output_dense": "attention_output",
}
_ADDONS = ("query_kernel", "key_kernel", "value_kernel", "projection_kernel", "projection_bias")
# What layers call their variables, in the order in which Keras numbers them.
_VARIABLES = (
    ("kernel", "bias"),
    ("gamma", "beta", "moving_mean", "moving_variance"),
    ("embeddings",),
    ("scale",),
    _ADDONS,
)
# A layer is what has these names; what Keras calls it in files.
_LAYERS = (
    ("grouped_query_attention", {"query/kernel", "attention_output/kernel"}),
    ("multi_head_attention", {"query/kernel", "attention_output/kernel"}),
    ("multi_head_attention", {"query_kernel", "projection_kernel"}),
    ("encoder_layer", {"mha/query/kernel", "ffn/dense1/kernel"}),
    ("decoder_layer", {"mha1/query/kernel", "mha2/query/kernel", "ffn/dense1/kernel"}),
    ("encoder", {"layer1/mha/query/kernel"}),
    ("decoder", {"layer1/mha1/query/kernel"}),
    ("transformer", {"encoder/layer1/mha/query/kernel", "decoder/layer1/mha1/query/kernel"}),
    ("transformer_encoder", {"self_attention_layer/query/kernel", "feedforward_intermediate_dense/kernel"}),
    ("transformer_decoder", {"self_attention/query/kernel", "feedforward_intermediate_dense/kernel"}),
    ("rms_normalization", {"scale"}),
    ("layer_normalization", {"gamma"}),
    ("embedding", {"embeddings"}),
    ("einsum_dense", {"kernel"}),
    ("dense", {"kernel"}),
)
LAYERS = tuple(dict.fromkeys(layer for layer, _ in _LAYERS))


def variable_names(kinds: Iterable[str], shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """What a layer calls its numbered variables, from its own name and class, and from their shapes.

    >>> variable_names({"dense_1"}, [(3, 5), (5,)]), variable_names({"layer_normalization"}, [(5,), (5,)])
    (['kernel', 'bias'], ['gamma', 'beta'])
    >>> variable_names({"embedding"}, [(7, 5)]), variable_names({"unknown"}, [(7,), (5,), (3,)])
    (['embeddings'], ['0', '1', '2'])
    """
    ranks = [len(shape) for shape in shapes]
    names: tuple[str, ...] = tuple(str(number) for number in range(len(shapes)))
    if ranks[:4] == [3, 3, 3, 3] and ranks[4:] in ([], [1]):
        names = _ADDONS
    elif len(ranks) == 1 and ranks[0] >= 2:
        names = ("embeddings",) if any("embedding" in kind for kind in kinds) else ("kernel",)
    elif len(ranks) == 2 and ranks[0] > ranks[1]:
        names = ("kernel", "bias")
    elif ranks == [1]:
        of_kind = (name for word, name in (("rms", "scale"), ("norm", "gamma")) if any(word in kind for kind in kinds))
        names = (next(of_kind, "bias"),)
    elif ranks in ([1, 1], [1, 1, 1, 1]) and len(set(shapes)) == 1:
        names = ("gamma", "beta", "moving_mean", "moving_variance")
    return [*names[: len(shapes)]]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where Keras looks for a variable.

    Attributes:
        groups: on the way to its layer, each with the name of the layer that it is for.
        number: of the variable in the layer.
    """

    groups: tuple[tuple[str, str], ...]
    number: int

    path = property(lambda self: "/".join((*(group for group, _ in self.groups), "vars", str(self.number))))


def places(weights: Weights, layer: str | None = None) -> dict[str, Place]:
    """Where Keras looks for each weight.

    Args:
        weights: of one layer, or of several with a name and a slash before each; then these are written in their order.
        layer: what Keras calls the layer in files; `None` goes by the names, and by the shapes.

    Raises:
        FileError: they are of no layer that is known here.

    >>> import numpy as np
    >>> names = {"query/kernel": np.ones((5, 3, 7)), "attention_output/kernel": np.ones((3, 7, 5))}
    >>> places(names)["query/kernel"].path
    'layers/multi_head_attention/query_dense/vars/0'
    """
    if layer is not None and layer not in LAYERS:
        raise FileError(f"There is no layer {layer!r} for files of Keras. There are: {', '.join(LAYERS)}.")
    kind = layer or _kind(weights)
    if kind is not None:
        return _places_in_layer(weights, kind, () if kind == "transformer" else ((f"layers/{kind}", kind),))
    found: dict[str, Place] = {}
    used: dict[str, int] = {}
    for name in dict.fromkeys(name.partition("/")[0] for name in weights):
        part = {key.partition("/")[2]: array for key, array in weights.items() if key.partition("/")[0] == name}
        kind = _kind(part)
        if kind is None:
            raise FileError(
                f"It is not known how Keras stores {listed(weights, 6)}: these are not the names of a layer of Keras' "
                "or ours, such as `query/kernel`. Convert them to `keras` or `ours`, or write .npz or .safetensors."
            )
        inner = _places_in_layer(part, kind, ((f"layers/{numbered(kind, used)}", name),))
        found |= {f"{name}/{key}": place for key, place in inner.items()}
    return found


def with_shared_table(names: dict[str, str]) -> dict[str, str]:
    """Our Transformer calls the embedding that both sides share the encoder's; Keras stores it at the decoder's."""
    theirs, ours = (f"{side}/embedding/embeddings" for side in ("decoder", "encoder"))
    if theirs in names and ours not in names and "encoder/layer1/mha/query/kernel" in names:
        return {ours if name == theirs else name: path for name, path in names.items()}
    return names


def numbered(kind: str, used: dict[str, int]) -> str:
    """As Keras tells layers of a kind apart: the second `dense` is `dense_1`; `used` counts them.

    >>> used = {}
    >>> numbered("dense", used), numbered("dense", used)
    ('dense', 'dense_1')
    """
    used[kind] = used.get(kind, -1) + 1
    return f"{kind}_{used[kind]}" if used[kind] else kind


def _kind(weights: Weights) -> str | None:
    """What Keras calls the layer that has these names."""
    for layer, names in _LAYERS:
        if not names <= weights.keys():
            continue
        if layer == "grouped_query_attention" and not _is_grouped(weights):
            continue
        if layer == "einsum_dense" and weights["kernel"].ndim < 3:
            continue
        if layer in ("einsum_dense", "dense") and weights.keys() - {"kernel", "bias"}:
            continue
        return layer
    return None


def _is_grouped(weights: Weights) -> bool:
    """Whether there are fewer heads for keys than for queries, in kernels (I, H, O)."""
    roles = ("query", "key", "attention_output")
    query, key, output = (weights[f"{role}/kernel"].shape if f"{role}/kernel" in weights else () for role in roles)
    return len(query) == len(key) == 3 and query[1] == output[0] > key[1] and query[1] % key[1] == 0


def _places_in_layer(weights: Weights, kind: str, top: tuple[tuple[str, str], ...]) -> dict[str, Place]:
    found = {}
    for name in weights:
        *parts, variable = name.split("/")
        order = next((names for names in _VARIABLES if variable in names), None)
        if order is None and not variable.isdecimal():
            known = ", ".join(key for names in _VARIABLES for key in names)
            raise FileError(f"Keras' layers have no variable `{variable}`, as in `{name}`. They have {known}.")
        siblings = [other.rpartition("/")[2] for other in weights if other.rpartition("/")[0] == "/".join(parts)]
        number = int(variable) if order is None else [key for key in order if key in siblings].index(variable)
        if (
            kind == "transformer"
            and parts == ["encoder", "embedding"]
            and f"decoder/embedding/{variable}" not in weights
        ):
            parts = ["decoder", "embedding"]
        found[name] = Place((*top, *zip(_groups(parts, kind), parts, strict=True)), number)
    return found


def _groups(parts: Sequence[str], kind: str) -> list[str]:
    """The attributes that hold the layers of these names."""
    held = [_PROJECTIONS.get(part, part) for part in parts]
    if kind == "grouped_query_attention":
        return [part if part.startswith("_") else f"_{part}" for part in held]
    if kind.startswith("transformer_"):  # KerasHub, whose decoder has other names than attributes
        return ["_" + re.sub(r"_attention$", "_attention_layer", held[0]), *held[1:]]
    if kind in ("encoder", "decoder", "transformer"):
        side = kind if kind != "transformer" else parts[0]
        return [_in_stack(part, side) for part in held]
    return held


def _in_stack(part: str, side: str) -> str:
    """`layer2` of our `Encoder` is the second `EncoderLayer` in its list."""
    if part == "layernorm":
        return "_last_norm"
    found = re.fullmatch(r"layer([1-9]\d*)", part)
    if found is None:
        return part
    return f"{side[:3]}_layers/{numbered(f'{side}_layer', {f'{side}_layer': int(found[1]) - 2})}"
