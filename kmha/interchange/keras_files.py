"""`.weights.h5` and `.keras`, read and written without Keras: no layer is made, and no code of a file's is run.

Keras numbers the variables of every layer, `layers/dense/vars/0`, under the attributes that hold the layers, and notes
each layer's name beside them. Here they get the names that they have in Keras, `dense/kernel`: from the notes, and from
what layers of that kind call their variables. Old files (Keras 2, TensorFlow Addons) have names of their own in them.
What is no weight, such as the optimizer's state and the seeds of dropout, is left out.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kmha.interchange.canonical import Weights
from kmha.interchange.file_errors import LIMIT, FileError, check_declared, check_parts, optional
from kmha.interchange.keras_paths import PATHS_OF_NAMES, numbered, places, variable_names, with_shared_table

_MEMBER = "model.weights.h5"
_NO_WEIGHTS = {"optimizer", "compile_metrics", "_compile_metrics", "_loss_tracker", "_metrics", "optimizer_weights"}
_SEEDS = "seed_generator"
_CHUNKED = 1000  # HDF5 compresses zeros by so much, and Keras compresses nothing
_DEPTH = 64


def read_h5(path: Path | io.BytesIO, noted: Mapping[str, str] | None = None) -> Weights:
    """The variables in an HDF5 file of Keras', by name.

    Args:
        path: of the file, or its bytes.
        noted: names of layers by their path in the file, for files in which they are not noted.
    """
    with _h5py().File(path, "r") as file:
        datasets = dict(_datasets(file, ""))
        legacy = "layer_names" in file.attrs or "model_weights" in file
        named = _legacy_names(datasets) if legacy else _names(file, datasets, noted or {})
        _check_sizes({where: datasets[where] for where in named.values()})
        return {name: _array(datasets[where], where) for name, where in named.items()}


def read_keras(path: Path) -> Weights:
    """The variables in a `.keras` archive, by name."""
    with zipfile.ZipFile(path) as archive:
        members = {entry.filename: entry for entry in archive.infolist()}
        for needed in (_MEMBER, "config.json"):
            if needed not in members:
                raise FileError(f"it has no {needed}, which Keras writes into every .keras file. It has: {[*members]}.")
            check_declared(needed, members[needed].file_size, members[needed].compress_size)
        config = json.loads(archive.read("config.json"))
        return read_h5(io.BytesIO(archive.read(_MEMBER)), dict(_noted(config, "")))


def dump(weights: Weights, layer: str | None = None) -> bytes:
    """The bytes of a `.weights.h5` file that `Model.load_weights` of a model of these layers takes."""
    buffer = io.BytesIO()
    with _h5py().File(buffer, "w") as file:
        for name, place in places(weights, layer).items():
            dataset = file.create_dataset(place.path, data=weights[name])
            if weights[name].dtype == ml_dtypes.bfloat16:
                dataset.attrs["dtype"] = "bfloat16"
            for depth, (_, label) in enumerate(place.groups, 1):
                above = "/".join(group for group, _ in place.groups[:depth])
                file.require_group(f"{above}/vars").attrs["name"] = label
    return buffer.getvalue()


def _h5py() -> Any:
    return optional("h5py", "convert")


def _datasets(group: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All datasets below a group by their path, without what leads out of the file or round in circles."""
    h5py = _h5py()
    if depth > _DEPTH:
        raise FileError(f"`{path[:80]}` lies deeper than {_DEPTH} groups, as in no model.")
    for name in sorted(group, key=_natural):
        here = f"{path}/{name}".lstrip("/")
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FileError(f"`{here}` is a link to elsewhere, which is not followed.")
        if not path and name in _NO_WEIGHTS:
            continue
        found = group[name]
        if isinstance(found, h5py.Group):
            yield from _datasets(found, here, depth + 1)
        elif not here.rpartition("/vars/")[0].endswith(_SEEDS):
            yield here, found


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sorts `dense_2` before `dense_10`."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


def _check_sizes(datasets: Mapping[str, Any]) -> None:
    """Raises a FileError where they take far less room in the file than in memory."""
    declared = {
        where: int(np.prod(dataset.shape, dtype=object)) * dataset.dtype.itemsize for where, dataset in datasets.items()
    }
    if sum(declared.values()) > LIMIT:
        stored = {where: dataset.id.get_storage_size() for where, dataset in datasets.items()}
        check_parts([(where, declared[where], stored[where]) for where in datasets], _CHUNKED)


def _array(dataset: Any, path: str) -> np.ndarray:
    if dataset.external or dataset.is_virtual:
        raise FileError(f"`{path}` has its numbers in another file, which is not followed.")
    if dataset.dtype.hasobject:
        raise FileError(f"`{path}` is an array of objects or texts, and weights are arrays of real numbers.")
    array = dataset[()]
    if _text(dataset, "dtype") == "bfloat16":
        array = np.asarray(array).view(ml_dtypes.bfloat16)
    return np.asarray(array)


def _text(item: Any, name: str) -> str | None:
    """A text noted beside a group or dataset. In a damaged file it may be of another type, which HDF5 must not read."""
    if name not in item.attrs:
        return None
    noted = item.attrs.get_id(name)
    is_text = _h5py().check_string_dtype(noted.dtype) is not None and noted.shape == ()
    return str(item.attrs[name]) if is_text else None


def _names(file: Any, datasets: Mapping[str, Any], noted: Mapping[str, str]) -> dict[str, str]:
    """Paths of datasets by name: as short as they can be without two of them being the same."""
    groups: dict[str, list[str]] = {}
    for path in datasets:
        group, _, number = path.rpartition("/")
        if group != "vars" and not group.endswith("/vars"):
            raise FileError(
                f"it has `{path}`, and Keras writes variables under `…/vars`. Is it another library's file?"
            )
        groups.setdefault(group.removesuffix("vars").rstrip("/"), []).append(number)
    named: list[tuple[str, str, str]] = []  # by the layers' names, by the file's paths, the path
    for group, numbers in groups.items():
        labels, parts = _labels(file, group, noted), group.split("/") if group else []
        prefix = f"{group}/vars/".lstrip("/")
        shapes = {number: datasets[prefix + number].shape for number in numbers}
        kinds = {*parts[-1:], *labels[-1:]}
        for number, variable in zip(shapes, variable_names(kinds, list(shapes.values())), strict=True):
            named.append(("/".join((*labels, variable)), "/".join((*parts, variable)), prefix + number))
    short = [name for name, _, _ in named]
    names = {(name if short.count(name) == 1 else long): path for name, long, path in named}
    return with_shared_table(_without_the_only_layer(names))


def _labels(file: Any, group: str, noted: Mapping[str, str]) -> list[str]:
    """The names of the layers on the way to a group; what only holds layers, such as `layers`, has none."""
    labels, parts = [], group.split("/") if group else []
    for depth in range(1, len(parts) + 1):
        path = "/".join(parts[:depth])
        variables = file[path].get("vars")
        if variables is not None:
            name = _text(variables, "name") or noted.get(path)
            labels.append(name or PATHS_OF_NAMES.get(parts[depth - 1], parts[depth - 1]))
    return labels


def _without_the_only_layer(names: dict[str, str]) -> dict[str, str]:
    """A model with weights in one layer has that layer's: `attention/query/kernel` is `query/kernel`."""
    while names and len({name.split("/")[0] for name in names}) == 1:
        rest = {name.partition("/")[2]: path for name, path in names.items()}
        if not all(rest) or {"kernel", "gamma", "embeddings", "scale", "0"} & rest.keys():
            break
        names = rest
    return names


def _legacy_names(datasets: Mapping[str, Any]) -> dict[str, str]:
    """Of files by Keras 2: `layer/layer/kernel:0`, the names being in the paths."""
    names = {}
    for path in datasets:
        parts = re.sub(r":\d+$", "", path.removeprefix("model_weights/")).split("/")
        names["/".join(parts[1:] if len(parts) > 2 and parts[0] == parts[1] else parts)] = path
    return _without_the_only_layer(names)


def _noted(config: Any, path: str) -> Iterator[tuple[str, str]]:
    """Paths in the file and names of a model's layers, as its config has them; nothing is made of it."""
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
        name = layer["config"].get("name") if isinstance(layer.get("config"), dict) else None
        if isinstance(name, str):
            yield here, name
        yield from _noted(layer, here)


def _snake(name: str) -> str:
    """As Keras turns a class into the name of a group: "MultiHeadAttention" into "multi_head_attention"."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
