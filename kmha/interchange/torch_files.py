"""Checkpoints of torch, as files of tensors: they are loaded with `weights_only`, which unpickles nothing else."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kmha.interchange.canonical import Weights
from kmha.interchange.file_errors import FileError, check_archive, check_declared, optional

# Under which checkpoints of trainings keep the model's weights, beside the optimizer's and other things.
_WITHIN = ("state_dict", "model_state_dict", "model_state", "model", "module", "weights")

_DEPTH = 4  # of such dicts in one another


def read(path: Path) -> Weights:
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


def dump(weights: Weights) -> bytes:
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
    for _ in range(_DEPTH):  # a dict can hold itself
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
