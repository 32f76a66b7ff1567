"""Build a layer for a case, and run it forward and backward on Keras' backend."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras.src.backend import get_keras_mask, set_keras_mask

from kmha.core import planning
from kmha.interchange import keras as keras_layout
from kmha.interchange.canonical import INTO_HEADS
from kmha.layers.builtin import BUILTIN
from kmha.verify import backends
from kmha.verify.comparing.cases import Case

# The modes of each backend. JAX compiles with XLA whenever it compiles, and torch is not traced.
MODES = {"tensorflow": ("eager", "graph", "xla"), "jax": ("eager", "graph"), "torch": ("eager",)}

# The widest dtype of each backend. On torch, Keras casts float64 to float32 before it multiplies.
WIDEST = {"tensorflow": "float64", "jax": "float64", "torch": "float32"}

Results = dict[str, np.ndarray]


class WeightsDoNotFit(ValueError):
    """The weights of a layer match neither layout, so no weights could be copied into the layer."""


@dataclasses.dataclass(frozen=True)
class Weight:
    """A variable of the layer and the name of its canonical weight. A kernel (I, H, O) is `exchanged`."""

    name: str
    variable: Any
    exchanged: bool

    def to_canonical(self, array: np.ndarray) -> np.ndarray:
        return array.transpose(1, 0, 2) if self.exchanged else array


class BuiltLayer:
    """A layer that was built for a case and that has the case's weights."""

    def __init__(self, layer_class: Any, case: Case) -> None:
        self.case = case
        self.inputs = case.inputs()
        self.layer = layer_class(**case.arguments())
        shapes = [array.shape for array in self.inputs.values()] * (2 if case.self_attention else 1)
        with keras.name_scope(self.layer.name):
            self.layer.build(*shapes)
        self.weights = _matched(self.layer, case.weights())
        self._random = [variable for variable in self.layer.variables if "seed_generator" in variable.path]
        self._start = [keras.ops.convert_to_numpy(variable).copy() for variable in self._random]

    def run(self, mode: str, upstream: np.ndarray) -> Results:
        """Return the output, the scores if the case returns them, and the gradients of Σ output · upstream.

        Args:
            mode: One of the backend's `MODES`.
            upstream: Factor of the output, with the output's shape.
        """
        for variable, start in zip(self._random, self._start, strict=True):
            variable.assign(start)
        path = self.case.path if keras.backend.backend() == "tensorflow" else ""
        with planning.environment_path(path):
            outputs, gradients = backends.current().run(self, mode, self._as_float(upstream))
        results = dict(zip(("output", "scores"), outputs, strict=False))
        count = len(self.inputs)
        results.update({f"d {name}": gradient for name, gradient in zip(self.inputs, gradients, strict=False)})
        for weight, gradient in zip(self.weights, gradients[count:], strict=True):
            results[f"d {weight.name}"] = weight.to_canonical(gradient)
        return results

    def metadata(self) -> dict[str, tuple[str, str]]:
        """Return what the layer reports about its output (dtypes, symbolic shape, mask), with the correct values."""
        for variable, start in zip(self._random, self._start, strict=True):
            variable.assign(start)
        output = self.call([keras.ops.convert_to_tensor(array) for array in self.arrays()])[0]
        symbolic = self.call([keras.KerasTensor(array.shape, str(array.dtype)) for array in self.arrays()])[0]
        dtype, shape = self.case.dtype.removeprefix("mixed_"), self.case.upstream().shape
        found = {
            "dtype": (keras.backend.standardize_dtype(output.dtype), dtype),
            "symbolic dtype": (keras.backend.standardize_dtype(symbolic.dtype), dtype),
            "symbolic shape": (str(tuple(symbolic.shape)), str(shape)),
        }
        mask = get_keras_mask(output)
        carried = self.case.masks().get("+query_mask")
        same = (mask is None) if carried is None else np.array_equal(_numpy(mask), carried)
        if "query_mask" not in self.case.paddings:
            found["mask that the output carries"] = ("right" if same else "wrong or missing", "right")
        return found

    def arrays(self) -> list[np.ndarray]:
        """Return the inputs, in float64 for a float64 case, else in float32. The layer rounds them further."""
        return [self._as_float(array) for array in self.inputs.values()]

    def call(self, tensors: Any) -> tuple[Any, ...]:
        """Call the layer on tensors in the order of `Case.inputs`, and return the outputs as a tuple."""
        named = dict(zip(self.inputs, tensors, strict=True))
        if self.case.self_attention:
            named["value"] = named["query"]
        given = {}
        for name, mask in self.case.masks().items():
            mask = keras.ops.convert_to_tensor(mask)
            if name.startswith("+"):
                named[name[1:].removesuffix("_mask")] = _carrying(named[name[1:].removesuffix("_mask")], mask)
            else:
                given[name] = mask
        outputs = self.layer(**named, **given, **self.case.call_flags())
        return outputs if isinstance(outputs, tuple) else (outputs,)

    def loss(self, outputs: tuple[Any, ...], upstream: Any) -> Any:
        """Return Σ output · upstream, summed in a wider type than the output's."""
        return keras.ops.sum(keras.ops.multiply(keras.ops.cast(outputs[0], upstream.dtype), upstream))

    def _as_float(self, array: np.ndarray) -> np.ndarray:
        return array.astype("float64" if self.case.dtype == "float64" else "float32")


def _numpy(mask: Any) -> Any:
    return None if mask is None else keras.ops.convert_to_numpy(mask)


def _carrying(x: Any, mask: Any) -> Any:
    set_keras_mask(x, mask)
    return x


def _matched(layer: Any, weights: dict[str, np.ndarray]) -> list[Weight]:
    """Copy `weights` into the layer's variables, in whichever of the two layouts the layer has."""
    shapes = [tuple(variable.shape) for variable in layer.weights]
    builtin = keras_layout.to_builtin(weights)
    layouts = {False: weights, True: {name: builtin[name] for name in weights}}
    if isinstance(layer, BUILTIN):  # when H = I, the shapes would match both layouts
        del layouts[False]
    for exchanged, arrays in layouts.items():
        if shapes == [array.shape for array in arrays.values()]:
            for variable, array in zip(layer.weights, arrays.values(), strict=True):
                variable.assign(array)
            return [
                Weight(name, variable, exchanged and name.endswith("kernel") and name.split("/")[0] in INTO_HEADS)
                for name, variable in zip(weights, layer.weights, strict=True)
            ]
    raise WeightsDoNotFit(
        f"the weights of {type(layer).__name__} match neither layout in order and shape. Expected "
        f"{[f'{name} {array.shape}' for name, array in weights.items()]}, or with kernels (I, H, O) as in the built-in "
        f"layer. Received {[f'{variable.path} {tuple(variable.shape)}' for variable in layer.weights]}."
    )
