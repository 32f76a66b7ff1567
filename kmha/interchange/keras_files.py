"""Read and write `.weights.h5` and `.keras` without Keras: no layer is built, and no code from a file is run.

In a file, Keras numbers the variables of every layer under the attribute that holds the layer: `layers/dense/vars/0`.
Beside them, it stores the layer's name. Here the variables get the names that they have in Keras, such as
`dense/kernel`: the stored name of the layer, and the name that such a layer gives to the variable. Old files (Keras 2,
TensorFlow Addons) contain the names themselves. The optimizer's state and the seeds of dropout are left out.
"""

import dataclasses
import io
import itertools
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kmha.bounded_json import PartsError, from_json
from kmha.interchange import hdf5
from kmha.interchange.canonical import Weights
from kmha.interchange.errors import (
    LONGEST_NAME,
    MOST_ARRAYS,
    FileError,
    check_declared,
    check_members,
    listed,
)

_MEMBER, _CONFIG = "model.weights.h5", "config.json"
_LONGEST_CONFIG = 16 << 20  # bytes
_NO_WEIGHTS = {"optimizer", "compile_metrics", "_compile_metrics", "_loss_tracker", "_metrics", "optimizer_weights"}
_SEEDS = "seed_generator"

# The name of each projection, and the attribute of an attention layer that refers to it.
_PROJECTIONS = {
    "query": "query_dense",
    "key": "key_dense",
    "value": "value_dense",
    "gate": "_gate_dense",
    "attention_output": "output_dense",
}
_NAMES_OF_PATHS = {path: name for name, path in _PROJECTIONS.items()} | {
    "_query_dense": "query",
    "_key_dense": "key",
    "_value_dense": "value",
    "_output_dense": "attention_output",
}
_ADDONS = ("query_kernel", "key_kernel", "value_kernel", "projection_kernel", "projection_bias")
# The variable names of layers, in the order in which Keras numbers them.
_NORM = ("gamma", "beta", "moving_mean", "moving_variance")
_VARIABLES = (("kernel", "bias"), _NORM, ("embeddings",), ("scale",), _ADDONS)
# Keras' names of layers in files, each with the variables that identify the layer.
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


def read_h5(source: Path | bytes, noted: Mapping[str, str] | None = None) -> Weights:
    """Read the variables of an HDF5 file that Keras wrote, or of its bytes.

    If it lacks layer names, `noted` has them, keyed by path.
    """
    hdf5.check_heaps(source)
    with hdf5.h5py().File(io.BytesIO(source) if isinstance(source, bytes) else source, "r") as file:
        hdf5.check_file(file)
        datasets = _variables(file)
        legacy = "layer_names" in file.attrs or "model_weights" in file
        named = _legacy_names(datasets) if legacy else _names(file, datasets, noted or {})
        hdf5.check_sizes({where: datasets[where] for where in named.values()})
        return {name: hdf5.array_of(datasets[where], where) for name, where in named.items()}


def read_keras(path: Path) -> Weights:
    """Read the variables of a `.keras` archive, keyed by name."""
    with zipfile.ZipFile(path) as archive:
        check_members(archive)
        members = {entry.filename: entry for entry in archive.infolist()}
        for needed in (_MEMBER, _CONFIG):
            if needed not in members:
                found = ", ".join(f"{name!a:.80}" for name in [*members][:6])
                raise FileError(f"it has no {needed}, which every .keras file has. Received: {found or 'no files'}.")
            check_declared(needed, members[needed].file_size, members[needed].compress_size)
        return read_h5(archive.read(_MEMBER), dict(_noted(_config(archive), "")))


def dump(weights: Weights, layer: str | None = None) -> bytes:
    """Return the bytes of a `.weights.h5` file that `Model.load_weights` can load into a model of these layers."""
    buffer = io.BytesIO()
    with hdf5.h5py().File(buffer, "w") as file:
        for name, place in places(weights, layer).items():
            dataset = file.create_dataset(place.path, data=weights[name])
            if weights[name].dtype == ml_dtypes.bfloat16:
                dataset.attrs["dtype"] = "bfloat16"
            for depth, (_, label) in enumerate(place.groups, 1):
                above = "/".join(group for group, _ in place.groups[:depth])
                file.require_group(f"{above}/vars").attrs["name"] = label
    return buffer.getvalue()


def _config(archive: zipfile.ZipFile) -> Any:
    """Return a model's config, or an empty one if it is long, as with arrays in it. Keras notes names elsewhere too."""
    with archive.open(_CONFIG) as member:
        data = member.read(_LONGEST_CONFIG + 1)
    if len(data) > _LONGEST_CONFIG:
        return {}
    try:
        return from_json(data.decode("utf-8-sig"))
    except PartsError:
        return {}
    except (ValueError, RecursionError) as error:
        raise FileError(f"its {_CONFIG} cannot be read: {error} Save its weights: .weights.h5.") from None


def _variables(file: Any) -> dict[str, Any]:
    """Return the datasets of a model's variables, keyed by path. Raise a FileError if there are too many."""
    found = (item for item in hdf5.datasets(file, _NO_WEIGHTS) if not item[0].rpartition("/vars/")[0].endswith(_SEEDS))
    variables = dict(itertools.islice(found, MOST_ARRAYS + 1))
    if len(variables) > MOST_ARRAYS:
        raise FileError(
            f"it contains more than {MOST_ARRAYS:,} arrays, the most that kmha reads. Save the attention layers, or "
            "the part of the model that has them, in a file of their own."
        )
    return variables


def _names(file: Any, datasets: Mapping[str, Any], noted: Mapping[str, str]) -> dict[str, str]:
    """Return the paths of datasets, keyed by the shortest names that are unique."""
    groups: dict[str, list[str]] = {}
    for path in datasets:
        group, _, number = path.rpartition("/")
        if group != "vars" and not group.endswith("/vars"):
            raise FileError(f"it has `{path}`, but Keras writes under `…/vars`. Did another library write the file?")
        groups.setdefault(group.removesuffix("vars").rstrip("/"), []).append(number)
    named: list[tuple[str, str, str]] = []  # short name, long name, path
    for group, numbers in groups.items():
        labels, parts = _labels(file, group, noted), group.split("/") if group else []
        prefix = f"{group}/vars/".lstrip("/")
        shapes = {number: datasets[prefix + number].shape for number in numbers}
        kinds = {*parts[-1:], *labels[-1:]}
        for number, variable in zip(shapes, variable_names(kinds, list(shapes.values())), strict=True):
            named.append(("/".join((*labels, variable)), "/".join((*parts, variable)), prefix + number))
    short = Counter(name for name, _, _ in named)
    names = {(name if short[name] == 1 else long): path for name, long, path in named}
    return with_shared_table(_without_the_only_layer(names))


def _labels(file: Any, group: str, noted: Mapping[str, str]) -> list[str]:
    """Return the names of the layers on the path to a group. A container such as `layers` has no name.

    Raises:
        FileError: Together, the names are longer than `LONGEST_NAME`.
    """
    labels, parts = [], group.split("/") if group else []
    for depth in range(1, len(parts) + 1):
        path = "/".join(parts[:depth])
        variables = file[path].get("vars")
        if variables is not None:
            name = hdf5.text_of(variables, "name") or noted.get(path)
            labels.append(name or _NAMES_OF_PATHS.get(parts[depth - 1], parts[depth - 1]))
        if (length := sum(map(len, labels))) > LONGEST_NAME:
            raise FileError(
                f"`{path}` is a layer whose name has {length:,} characters. kmha reads names of at most "
                f"{LONGEST_NAME:,}. Rename the layer."
            )
    return labels


def _without_the_only_layer(names: dict[str, str]) -> dict[str, str]:
    """Drop the layer's name if only one layer has weights: `attention/query/kernel` becomes `query/kernel`."""
    while names and len({name.partition("/")[0] for name in names}) == 1:
        rest = {name.partition("/")[2]: path for name, path in names.items()}
        if not all(rest) or {"kernel", "gamma", "embeddings", "scale", "0"} & rest.keys():
            break
        names = rest
    return names


def _legacy_names(datasets: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths in a file of Keras 2, keyed by the names that they contain: `layer/layer/kernel:0`."""
    names = {}
    for path in datasets:
        parts = re.sub(r":\d+$", "", path.removeprefix("model_weights/")).split("/")
        names["/".join(parts[1:] if len(parts) > 2 and parts[0] == parts[1] else parts)] = path
    return _without_the_only_layer(names)


def _noted(config: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each layer in a model's config, without building a layer. No path is too long."""
    inner = config.get("config") if isinstance(config, dict) else None
    layers = inner.get("layers") if isinstance(inner, dict) else None
    if not isinstance(layers, list):
        return
    used: dict[str, int] = {}
    for layer in layers:
        if not isinstance(layer, dict) or not isinstance(layer.get("class_name"), str):
            continue
        snake = _snake(layer["class_name"])
        here = f"{path}/layers/{numbered(snake, used)}".lstrip("/")
        if len(here) > LONGEST_NAME:
            continue
        name = layer["config"].get("name") if isinstance(layer.get("config"), dict) else None
        if isinstance(name, str):
            yield here, name
        yield from _noted(layer, here)


def _snake(name: str) -> str:
    """Return the group name that Keras gives to a class: "multi_head_attention" for "MultiHeadAttention"."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def variable_names(kinds: Iterable[str], shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """Return the names of a layer's numbered variables, guessed from the layer's name and class and from the shapes.

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
        names = _NORM
    return [*names[: len(shapes)]]


@dataclasses.dataclass(frozen=True)
class Place:
    """The place in a file where Keras looks for a variable."""

    groups: tuple[tuple[str, str], ...]  # on the path to the variable's layer, each with the name of its layer
    number: int  # index of the variable in the layer

    path = property(lambda self: "/".join((*(group for group, _ in self.groups), "vars", str(self.number))))


def places(weights: Weights, layer: str | None = None) -> dict[str, Place]:
    """Return the place in a file where Keras looks for each weight of one layer, or of several layers in order.

    With several layers, each weight's name begins with the layer's name and a slash. `layer` is Keras' name of a single
    layer. If `layer` is `None`, the names and shapes of the weights determine the layer.

    Raises:
        FileError: The weights are not those of a known layer.

    >>> import numpy as np
    >>> names = {"query/kernel": np.ones((5, 3, 7)), "attention_output/kernel": np.ones((3, 7, 5))}
    >>> places(names)["query/kernel"].path
    'layers/multi_head_attention/query_dense/vars/0'
    """
    if layer is not None and layer not in LAYERS:
        known = ", ".join(LAYERS)
        raise FileError(f"{layer!r} is not a layer name that kmha knows in Keras files. Expected one of {known}.")
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
                f"kmha does not know how Keras stores {listed(weights, 6)}: these are not names of a layer of Keras or "
                "kmha, such as `query/kernel`. Convert them to `keras` or `ours`, or write .npz or .safetensors."
            )
        inner = _places_in_layer(part, kind, ((f"layers/{numbered(kind, used)}", name),))
        found |= {f"{name}/{key}": place for key, place in inner.items()}
    return found


def with_shared_table(names: dict[str, str]) -> dict[str, str]:
    """Rename a shared embedding, which Keras stores with the decoder and kmha's Transformer names after the encoder."""
    theirs, ours = (f"{side}/embedding/embeddings" for side in ("decoder", "encoder"))
    if theirs in names and ours not in names and "encoder/layer1/mha/query/kernel" in names:
        return {ours if name == theirs else name: path for name, path in names.items()}
    return names


def numbered(kind: str, used: dict[str, int]) -> str:
    """Return the next name of a kind of layer, counted as Keras does. `used` keeps the counts.

    >>> used = {}
    >>> numbered("dense", used), numbered("dense", used)
    ('dense', 'dense_1')
    """
    used[kind] = used.get(kind, -1) + 1
    return f"{kind}_{used[kind]}" if used[kind] else kind


def _kind(weights: Weights) -> str | None:
    """Return Keras' name for the layer that has these variables."""
    for layer, names in _LAYERS:
        exceptions = (
            layer == "grouped_query_attention" and not _is_grouped(weights),
            layer == "einsum_dense" and np.ndim(weights.get("kernel", 0)) < 3,
            layer in ("einsum_dense", "dense") and weights.keys() - {"kernel", "bias"},
        )
        if names <= weights.keys() and not any(exceptions):
            return layer
    return None


def _is_grouped(weights: Weights) -> bool:
    """Return True if kernels (I, H, O) have fewer heads for keys than for queries."""
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
            raise FileError(f"Keras' layers have no variable `{variable}`. Expected {known}. Received: `{name}`.")
        siblings = [other.rpartition("/")[2] for other in weights if other.rpartition("/")[0] == "/".join(parts)]
        number = int(variable) if order is None else [key for key in order if key in siblings].index(variable)
        is_shared = kind == "transformer" and f"decoder/embedding/{variable}" not in weights
        if is_shared and parts == ["encoder", "embedding"]:
            parts = ["decoder", "embedding"]
        found[name] = Place((*top, *zip(_groups(parts, kind), parts, strict=True)), number)
    return found


def _groups(parts: Sequence[str], kind: str) -> list[str]:
    """Return the attributes that hold the layers with these names."""
    attributes = [_PROJECTIONS.get(part, part) for part in parts]
    if kind == "grouped_query_attention":
        return [part if part.startswith("_") else f"_{part}" for part in attributes]
    if kind.startswith("transformer_"):  # KerasHub's decoder names its attributes differently from its layers
        return ["_" + re.sub(r"_attention$", "_attention_layer", attributes[0]), *attributes[1:]]
    if kind in ("encoder", "decoder", "transformer"):
        side = kind if kind != "transformer" else parts[0]
        return [_in_stack(part, side) for part in attributes]
    return attributes


def _in_stack(part: str, side: str) -> str:
    """Return the path of a sublayer of kmha's stacks: `layer2` of `Encoder` is the second item of its list."""
    if part == "layernorm":
        return "_last_norm"
    found = re.fullmatch(r"layer([1-9]\d*)", part)
    if found is None:
        return part
    return f"{side[:3]}_layers/{numbered(f'{side}_layer', {f'{side}_layer': int(found[1]) - 2})}"
