"""Files of weights: names and arrays, and nothing that runs.

| suffix | read | written | names |
| --- | --- | --- | --- |
| `.npz` | yes | yes | as they are |
| `.safetensors` | yes | yes | as they are |
| `.pt`, `.pth`, `.bin` | yes, tensors only | yes | as they are |
| `.weights.h5`, `.h5` | yes | yes | the layers' and their variables': `keras_files.py` |
| `.keras` | yes | no | the same |

Nothing is unpickled but what torch's `weights_only` lets through, which is tensors, and no code is taken from a file.
"""

import contextlib
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kmha import files
from kmha.interchange import keras_files
from kmha.interchange.canonical import Weights
from kmha.interchange.errors import FileError, check_archive, check_declared, optional

READABLE = (".weights.h5", ".h5", ".keras", ".npz", ".safetensors", ".pt", ".pth", ".bin")
WRITABLE = tuple(suffix for suffix in READABLE if suffix != ".keras")


def read_file(path: str | Path) -> Weights:
    """The arrays of a file of weights, by name; its suffix says what it is.

    Args:
        path: with one of the suffixes above. Names of variables in Keras' files are those of layers and variables, such
            as `decoder/query/kernel`; for a model with a single layer, its own (`query/kernel`). Of a torch checkpoint
            that keeps its weights under a key such as `state_dict`, these are taken.

    Raises:
        FileError: a ValueError: the file is not there, not what its suffix says, truncated, holds no weights or other
            things than numbers, or would take far more memory than it has on disk.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/attention.npz"
    >>> write_file(path, {"query/kernel": np.ones((3, 5, 7), "float32")})
    >>> {name: array.shape for name, array in read_file(path).items()}
    {'query/kernel': (3, 5, 7)}
    """
    path = Path(path)
    suffix = _suffix(path, READABLE, "read")
    if path.is_dir():
        raise FileError(f"{path} is a folder. Name a file in it: {_listed(READABLE)}.")
    if not path.exists():
        raise FileError(f"{path} does not exist.")
    if path.stat().st_size == 0:
        raise FileError(f"{path} is empty: it has no byte. Was it downloaded or saved to its end?")
    with _told(path, suffix):
        weights = _READERS[suffix](path)
    if not weights:
        raise FileError(f"{path} holds no weights.")
    for name, array in weights.items():
        _check_numbers(name, array, f"{path} holds")
    return weights


def write_file(path: str | Path, weights: Mapping[str, Any], layer: str | None = None) -> None:
    """Writes arrays by name, whole or not at all.

    Args:
        path: with a suffix above but `.keras`, which holds a model too. An existing file is replaced.
        weights: arrays of numbers by name. For `.weights.h5` the names are those of one of Keras' or our layers, or of
            several, each after a name and a slash; `Model.load_weights` of a model of just these layers takes the file.
        layer: for `.weights.h5`, where names fit more than one: what Keras calls the layer in files, such as
            "grouped_query_attention".

    Raises:
        FileError: a ValueError: the file cannot be written there or in that format, or these are no weights.
    """
    path = Path(path)
    suffix = _suffix(path, WRITABLE, "written")
    if path.is_dir():
        raise FileError(f"{path} is a folder. Name a file in it: {_listed(WRITABLE)}.")
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if not weights:
        raise FileError(f"{path} was not written: there are no weights to write.")
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    for name, array in arrays.items():
        _check_numbers(name, array, "These weights hold")
    arrays = {
        name: np.asarray(array.astype(array.dtype.newbyteorder("<")), order="C") for name, array in arrays.items()
    }
    data = keras_files.dump(arrays, layer) if suffix.endswith(".h5") else _WRITERS[suffix](arrays)
    try:
        files.write_bytes(path, data)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}.") from None


def _suffix(path: Path, known: tuple[str, ...], verb: str) -> str:
    for suffix in known:
        if path.name.lower().endswith(suffix):
            return suffix
    if path.suffix == ".keras":
        why = "a .keras file cannot be written: it holds a model, and these are weights alone."
        raise FileError(f"{path}: {why} Write .weights.h5, and load it with `model.load_weights`.")
    kind = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
    raise FileError(f"{path} has {kind}, so it cannot be {verb}. Expected {_listed(known)}.")


def _listed(suffixes: tuple[str, ...]) -> str:
    return f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"


@contextlib.contextmanager
def _told(path: Path, suffix: str) -> Iterator[None]:
    """One line for whatever a parser says of a file that it cannot read."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{path}: {error}") from None
    except PermissionError:
        raise FileError(f"{path} may not be read: its permissions forbid it.") from None
    except (Exception, MemoryError) as error:  # parsers raise anything for bytes that anybody may have written
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FileError(
            f"{path} cannot be read as {suffix}: {said[:200]} The file is truncated, damaged, or of another kind."
        ) from None


def _check_numbers(name: str, array: np.ndarray, holder: str) -> None:
    if array.dtype.kind not in "biuf" and array.dtype.type.__module__ != "ml_dtypes":
        raise FileError(f"{holder} `{name}`, an array of {array.dtype}, and weights are arrays of real numbers.")


def _little_endian(array: np.ndarray) -> np.ndarray:
    return np.asarray(array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array, order="C")


def _read_npz(path: Path) -> Weights:
    weights = {}
    with zipfile.ZipFile(path) as archive:
        check_archive(archive)
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                raise FileError(f"it holds {entry.filename!r}, and an .npz file has arrays (.npy) alone.")
            with archive.open(entry) as member:
                weights[entry.filename.removesuffix(".npy")] = _read_npy(entry, member)
    return weights


def _read_npy(entry: zipfile.ZipInfo, member: Any) -> np.ndarray:
    """An array; its header is looked at first, for it may promise more than there is, or objects."""
    version = np.lib.format.read_magic(member)
    read_header: Callable[[Any], tuple[tuple[int, ...], bool, np.dtype]] = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read_header(member)
    name = entry.filename.removesuffix(".npy")
    if dtype.hasobject:
        raise FileError(f"`{name}` is an array of objects, which only pickle could read, and that runs code.")
    declared, there = int(np.prod(shape, dtype=object)) * dtype.itemsize, entry.file_size - member.tell()
    if declared != there:
        raise FileError(f"`{name}` {shape} takes {declared} bytes, and {there} are there. The file is damaged.")
    if dtype == np.dtype("V2"):  # what NumPy writes for bfloat16
        dtype = np.dtype(ml_dtypes.bfloat16)
    array = np.frombuffer(bytearray(member.read()), dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def _write_npz(weights: Weights) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in weights.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return file.getvalue()


_SAFETENSORS = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BOOL": "bool"}
_LETTERS = {"F": "float", "I": "int", "U": "uint"}


def _read_safetensors(path: Path) -> Weights:
    weights = {}
    for name, tensor in optional("safetensors", "convert").deserialize(path.read_bytes()):
        code = tensor["dtype"]
        dtype = _SAFETENSORS.get(code) or _LETTERS.get(code[0], "?") + code[1:]
        if not (hasattr(np, dtype) or hasattr(ml_dtypes, dtype)):
            raise FileError(f"`{name}` has the dtype {code}, which NumPy does not have.")
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        weights[name] = np.frombuffer(bytearray(tensor["data"]), kind).reshape(tensor["shape"])
    return weights


def _write_safetensors(weights: Weights) -> bytes:
    return optional("safetensors.numpy", "convert").save(weights)


# Under which checkpoints of trainings keep the model's weights, beside the optimizer's and other things.
_WITHIN = ("state_dict", "model_state_dict", "model_state", "model", "module", "weights")

_NESTED = 4  # of such dicts in one another


def _read_torch(path: Path) -> Weights:
    """The tensors of a checkpoint as arrays, by name."""
    torch = _torch()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            check_archive(archive)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the pickle module's errors, and torch's of five kinds
        if "weights_only" in str(error) or "Unsupported" in str(error):
            raise FileError(
                "it holds other things than tensors, such as a whole model, or is damaged. These are never unpickled, "
                "for that runs code of the file's. In torch, save the weights alone: "
                "torch.save(model.state_dict(), path)."
            ) from None
        raise
    found = _unwrapped(torch, found)
    return {name: _array(torch, name, tensor) for name, tensor in found.items()}


def _write_torch(weights: Weights) -> bytes:
    """A checkpoint with these tensors, for `load_state_dict`."""
    torch = _torch()
    tensors = {}
    for name, array in weights.items():
        if array.dtype.type.__module__ != "ml_dtypes":
            tensors[name] = torch.from_numpy(array.copy())
        elif not hasattr(torch, array.dtype.name):
            raise FileError(f"torch has no dtype {array.dtype.name}, which `{name}` has.")
        else:
            bits = torch.from_numpy(array.view(_bits(array.dtype.itemsize)).copy())
            tensors[name] = bits.view(getattr(torch, array.dtype.name))
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def _torch() -> Any:
    return optional("torch", "torch")


def _unwrapped(torch: Any, found: Any) -> Mapping[str, Any]:
    for _ in range(_NESTED):  # a dict can hold itself
        if not isinstance(found, Mapping):
            break
        within = next((key for key in _WITHIN if isinstance(found.get(key), Mapping)), None)
        if within is None or any(isinstance(value, torch.Tensor) for value in found.values()):
            break
        found = found[within]
    if not isinstance(found, Mapping):
        raise FileError(f"it holds a {type(found).__name__}, and weights are tensors by name, a `state_dict`.")
    for name, value in found.items():
        if not (isinstance(name, str) and isinstance(value, torch.Tensor)):
            inside = f"`{name}`, a {type(value).__name__}, among {', '.join(f'`{key}`' for key in list(found)[:8])}"
            raise FileError(f"it holds {inside}, and weights are tensors by name. Save the `state_dict` alone.")
    return found


def _array(torch: Any, name: str, tensor: Any) -> np.ndarray:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
        raise FileError(f"`{name}` is a sparse, quantized or complex tensor. Save it dense and real: `.to_dense()`.")
    # A tensor can be expanded: many times the numbers that are there.
    check_declared(name, tensor.numel() * tensor.itemsize, tensor.untyped_storage().nbytes())
    tensor = tensor.detach().contiguous()
    dtype = getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch."), None)
    if dtype is None:
        return tensor.numpy()
    return tensor.view(getattr(torch, _bits(tensor.itemsize))).numpy().view(dtype)


def _bits(itemsize: int) -> str:
    return f"int{8 * itemsize}"


_READERS: dict[str, Callable[[Path], Weights]] = {
    ".weights.h5": keras_files.read_h5,
    ".h5": keras_files.read_h5,
    ".keras": keras_files.read_keras,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    **dict.fromkeys((".pt", ".pth", ".bin"), _read_torch),
}
_WRITERS: dict[str, Callable[[Weights], bytes]] = {
    ".npz": _write_npz,
    ".safetensors": _write_safetensors,
    **dict.fromkeys((".pt", ".pth", ".bin"), _write_torch),
}
