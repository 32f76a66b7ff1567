"""Read and write weights files, without running any code in them.

| suffix | read | written | names |
| --- | --- | --- | --- |
| `.npz` | yes | yes | as they are |
| `.safetensors` | yes | yes | as they are |
| `.pt`, `.pth`, `.bin` | yes, tensors only | yes | as they are |
| `.weights.h5`, `.h5` | yes | yes | those of layers and variables: `keras_files.py` |
| `.keras` | yes | no | the same |

torch's `weights_only` unpickles tensors and nothing else. First, `torch_pickles.py` refuses files that take all memory.
"""

import contextlib
import io
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kmha import atomic_files
from kmha.interchange import keras_files, torch_pickles
from kmha.interchange.canonical import Weights
from kmha.interchange.errors import (
    LONGEST_NAME,
    MOST_ARRAYS,
    FileError,
    check_archive,
    check_declared,
    optional,
)
from kmha.regular_files import stored_size

READABLE = (".weights.h5", ".h5", ".keras", ".npz", ".safetensors", ".pt", ".pth", ".bin")
WRITABLE = tuple(suffix for suffix in READABLE if suffix != ".keras")


def read_file(path: str | Path) -> Weights:
    """Read the arrays of a weights file, keyed by name.

    Args:
        path: File with one of the suffixes above, which determines the format. The names in Keras' files are those of
            layers and variables, such as `decoder/query/kernel`. A model with a single layer has just `query/kernel`.
            If a torch checkpoint keeps its weights under a key such as `state_dict`, kmha reads the weights there.

    Raises:
        FileError: (a ValueError) The file does not exist, does not have the format of its suffix, is truncated, has
            no weights, has something besides numbers, has names that cannot be printed, has more than `MOST_ARRAYS`
            arrays or names longer than `LONGEST_NAME`, or would take far more space in memory than on disk.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/attention.npz"
    >>> write_file(path, {"query/kernel": np.ones((3, 5, 7), "float32")})
    >>> {name: array.shape for name, array in read_file(path).items()}
    {'query/kernel': (3, 5, 7)}
    """
    path = Path(path)
    suffix = _suffix(path, READABLE, "read")
    if not path.exists():
        raise FileError(f"{path} does not exist.")
    if path.stat().st_size == 0:
        raise FileError(f"{path} is empty. Was it interrupted while downloading or saving?")
    with _explained(path, suffix):
        check_declared(path.name, path.stat().st_size, stored_size(path))
        weights = _READERS[suffix](path)
    if not weights:
        raise FileError(f"{path} contains no weights.")
    _check_names(path, weights)
    for name, array in weights.items():
        _check_numbers(name, array, f"{path} contains")
    return weights


def _check_names(path: Path, names: Collection[str]) -> None:
    if len(names) > MOST_ARRAYS:
        raise FileError(
            f"{path} contains {len(names):,} arrays. kmha reads at most {MOST_ARRAYS:,}. Save the attention layers, "
            "or the part of the model that has them, in a file of their own."
        )
    for name in names:
        if not name.isprintable():  # tables and messages show the names, on terminals too
            raise FileError(f"{path} contains an array with control characters in its name: {name[:80]!a}.")
        if len(name) > LONGEST_NAME:
            raise FileError(
                f"{path} contains an array whose name has {len(name):,} characters: {name[:80]!r}…. kmha reads names "
                f"of at most {LONGEST_NAME:,}. Rename the array."
            )


def write_file(path: str | Path, weights: Mapping[str, Any], layer: str | None = None) -> None:
    """Write arrays to a file under their names, atomically.

    Args:
        path: File with one of the suffixes above, except `.keras`, which also contains a model. An existing file
            is replaced.
        weights: Arrays of numbers, keyed by name. In `.weights.h5`, the names are those of one layer of Keras or kmha,
            or of several layers, with the layer's name and a slash before each. `Model.load_weights` can then load the
            file into a model of just these layers.
        layer: Keras' name of the layer in `.weights.h5` files, such as "grouped_query_attention". It is needed if
            the names fit several layers.

    Raises:
        FileError: (a ValueError) The file cannot be written there or in that format, or `weights` are not numbers.
    """
    path = Path(path)
    suffix = _suffix(path, WRITABLE, "written")
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if not weights:
        raise FileError(f"{path} was not written, because there are no weights to write.")
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    for name, array in arrays.items():
        _check_numbers(name, array, "The weights contain")
        arrays[name] = np.asarray(array.astype(array.dtype.newbyteorder("<")), order="C")
    data = keras_files.dump(arrays, layer) if suffix.endswith(".h5") else _WRITERS[suffix](arrays)
    try:
        atomic_files.write_bytes(path, data)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}.") from None


def _suffix(path: Path, known: tuple[str, ...], verb: str) -> str:
    suffix = next((suffix for suffix in known if path.name.lower().endswith(suffix)), None)
    if suffix and path.is_dir():
        raise FileError(f"{path} is a folder. Name a file in it: {_listed(known)}.")
    if suffix:
        return suffix
    if path.suffix == ".keras":
        why = "a .keras file cannot be written, because it holds a model, and these are only weights."
        raise FileError(f"{path}: {why} Write .weights.h5, and load it with `model.load_weights`.")
    kind = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
    raise FileError(f"{path} has {kind}, so it cannot be {verb}. Expected {_listed(known)}.")


def _listed(suffixes: tuple[str, ...]) -> str:
    return f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"


@contextlib.contextmanager
def _explained(path: Path, suffix: str) -> Iterator[None]:
    """Turn any error of a parser into a FileError of one line."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{path}: {error}") from None
    except PermissionError:
        raise FileError(f"{path} cannot be read: permission denied.") from None
    except (Exception, MemoryError) as error:  # on untrusted bytes, parsers can raise any error
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FileError(
            f"{path} cannot be read as {suffix}: {first[:200]} The file is truncated, damaged, or of another kind."
        ) from None


def _check_numbers(name: str, array: np.ndarray, holder: str) -> None:
    if array.dtype.kind not in "biuf" and array.dtype.type.__module__ != "ml_dtypes":
        raise FileError(f"{holder} `{name}`, an array of {array.dtype}. Expected arrays of real numbers.")


def _read_npz(path: Path) -> Weights:
    weights = {}
    with zipfile.ZipFile(path) as archive:
        check_archive(archive)
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                raise FileError(f"it contains {entry.filename!r}. Expected only arrays (.npy) in an .npz file.")
            with archive.open(entry) as member:
                weights[entry.filename.removesuffix(".npy")] = _read_npy(entry, member)
    return weights


def _read_npy(entry: zipfile.ZipInfo, member: Any) -> np.ndarray:
    """Read an array after checking its header, which may declare objects, or more bytes than there are."""
    version = np.lib.format.read_magic(member)
    read_header: Callable[[Any], tuple[tuple[int, ...], bool, np.dtype]] = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read_header(member)
    name = entry.filename.removesuffix(".npy")
    if dtype.hasobject:
        raise FileError(f"`{name}` is an array of objects. Only pickle can read it, and pickle runs code.")
    declared, stored = int(np.prod(shape, dtype=object)) * dtype.itemsize, entry.file_size - member.tell()
    if declared != stored:
        raise FileError(f"`{name}` {shape} takes {declared} bytes, but the file has {stored}. It is damaged.")
    if dtype == np.dtype("V2"):  # how NumPy writes bfloat16
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


_SAFETENSORS_DTYPES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BOOL": "bool"}
_LETTERS = {"F": "float", "I": "int", "U": "uint"}


def _read_safetensors(path: Path) -> Weights:
    weights = {}
    for name, tensor in optional("safetensors", "convert").deserialize(path.read_bytes()):
        code = tensor["dtype"]
        dtype = _SAFETENSORS_DTYPES.get(code) or _LETTERS.get(code[0], "?") + code[1:]
        if not (hasattr(np, dtype) or hasattr(ml_dtypes, dtype)):
            raise FileError(f"`{name}` has the dtype {code}, which NumPy does not have.")
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        weights[name] = np.frombuffer(bytearray(tensor["data"]), kind).reshape(tensor["shape"])
    return weights


def _write_safetensors(weights: Weights) -> bytes:
    return optional("safetensors.numpy", "convert").save(weights)


# Training checkpoints keep the weights of the model under one of these keys, beside the state of the optimizer.
_WITHIN = ("state_dict", "model_state_dict", "model_state", "model", "module", "weights")
_NESTED = 4  # maximum depth of such keys


def _read_torch(path: Path) -> Weights:
    torch = optional("torch", "torch")
    try:
        with torch_pickles.opened(path) as file:
            torch_pickles.check(torch, file)
            file.seek(0)
            found = torch.load(file, map_location="cpu", weights_only=True)
    except FileError:
        raise
    except Exception as error:  # an error of pickle, or one of torch's five kinds
        reason = f" ({str(error).rstrip('.')})" if isinstance(error, torch_pickles.PickleError) else ""
        if reason or "weights_only" in str(error) or "Unsupported" in str(error):
            raise FileError(
                f"it contains other things than tensors, such as a whole model, or is damaged{reason}. kmha never "
                "unpickles these, because that runs code from the file. Save only the weights: "
                "torch.save(model.state_dict(), …)."
            ) from None
        raise
    tensors = _unwrapped(torch, found)
    _check_tensors(torch, tensors, path.stat().st_size)
    return {name: _array(torch, tensor) for name, tensor in tensors.items()}


def _write_torch(weights: Weights) -> bytes:
    """Return the bytes of a checkpoint for `load_state_dict`."""
    torch = optional("torch", "torch")
    tensors = {}
    for name, array in weights.items():
        if array.dtype.type.__module__ != "ml_dtypes":
            tensors[name] = torch.from_numpy(array.copy())
        elif not hasattr(torch, array.dtype.name):
            raise FileError(f"`{name}` has the dtype {array.dtype.name}, which torch does not have.")
        else:
            bits = torch.from_numpy(array.view(_bits(array.dtype.itemsize)).copy())
            tensors[name] = bits.view(getattr(torch, array.dtype.name))
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def _unwrapped(torch: Any, found: Any) -> Mapping[str, Any]:
    for _ in range(_NESTED):  # bounded, because a dict can contain itself
        if not isinstance(found, Mapping):
            break
        within = next((key for key in _WITHIN if isinstance(found.get(key), Mapping)), None)
        if within is None or any(_may_be_weight(torch, value) for value in found.values()):
            break
        found = found[within]
    if not isinstance(found, Mapping):
        raise FileError(f"it contains a {type(found).__name__}. Expected tensors by name, as in a `state_dict`.")
    for name, value in found.items():
        if not (isinstance(name, str) and isinstance(value, torch.Tensor)):
            keys = (name, *list(found)[:8])
            names = [f"`{str(key)[:80]}`" if isinstance(key, str | int) else type(key).__name__ for key in keys]
            inside = f"{names[0]}, a {type(value).__name__}, among {', '.join(names[1:])}"
            raise FileError(f"it contains {inside}. Expected tensors by name. Save only the `state_dict`.")
    return found


def _may_be_weight(torch: Any, value: Any) -> bool:
    """Return whether a value beside weights may be a weight too: a tensor, but no loss and no state of a generator."""
    return isinstance(value, torch.Tensor) and value.ndim > 0 and value.dtype != torch.uint8


def _check_tensors(torch: Any, tensors: Mapping[str, Any], stored: int) -> None:
    """Raise a FileError for tensors that NumPy does not have, or that have far more elements than the file stores."""
    declared = 0
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise FileError(
                f"`{name}` is a sparse, quantized or complex tensor. Save it dense and real: `.to_dense()`."
            )
        size = tensor.numel() * tensor.itemsize
        # An expanded tensor has many more elements than its storage.
        check_declared(name, size, tensor.untyped_storage().nbytes())
        declared += size
    check_declared("all arrays", declared, stored)  # many tensors can share one storage, which the file need not fill


def _array(torch: Any, tensor: Any) -> np.ndarray:
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
