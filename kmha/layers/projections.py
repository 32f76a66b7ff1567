"""The projections as sublayers: `HeadProjection` from features to heads, and `HeadMerge` from heads to features.

Both are `keras.layers.EinsumDense` with kernels of kmha's shape, so that LoRA, quantization and saving come from Keras.
Only the floating point computation comes from `kmha.core.projection`.
"""

import contextlib
import itertools
from typing import Any

import keras
from keras import ops
from keras.initializers import VarianceScaling

# Keras has no public name for some of these functions.
from keras.src import backend

from kmha.core import axes, eager, projection
from kmha.core.tensors import Tensor, as_tensor
from kmha.layers import sharding

# These quantization modes store the kernel as a matrix. They take its rows from the first axis and its columns from the
# last axis. So they need the built-in's layout (I, H, O).
MATRIX_MODES = ("int4", "gptq", "awq")

# These constraints and regularizers give the same in every layout.
_ELEMENTWISE = (keras.constraints.NonNeg, keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)


class _FloatProjection(keras.layers.EinsumDense):
    """An `EinsumDense` that computes floating point numbers with a function of `kmha.core`."""

    _project: Any  # (inputs, kernel, bias) -> outputs
    _by_head: tuple[str, ...]  # weights whose first axis is H
    equation: str
    partial_output_shape: tuple[int | None, ...]
    kernel_initializer: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.supports_masking = True  # a mask of positions is valid for the outputs too

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Outside of a graph, what Keras does before and after `call` takes four times as long as a small product.
        if len(args) == 1 and not kwargs and self._is_prepared(args[0]):
            return super(keras.layers.Layer, self).__call__(args[0])  # calls hooks, and `call`
        return super().__call__(*args, **kwargs)

    def _is_prepared(self, inputs: Any) -> bool:
        """Return True if Keras would change neither inputs nor weights before `call`, nor anything after it."""
        if not (self.built and eager.starts_each_operation() and backend.is_tensor(inputs)):
            return False
        if type(self).call is not _FloatProjection.call or self.quantization_mode is not None:
            return False  # others may want `training`, which Keras would find out
        scope, dtype = backend.get_autocast_scope(), self.compute_dtype
        return (
            backend.standardize_dtype(inputs.dtype) == dtype
            and ((scope and scope.dtype) or self.variable_dtype) == dtype
            and self.autocast
            and self.activity_regularizer is None
            and len(inputs.shape) == getattr(self.input_spec, "ndim", None)
            and backend.get_keras_mask(inputs) is None
            and keras.distribution.distribution() is None
        )

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        kernel = as_tensor(self.kernel)
        kernel = kernel if kernel.dtype == inputs.dtype else ops.cast(kernel, inputs.dtype)
        outputs = type(self)._project(inputs, kernel, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def quantize(self, mode: str | None = None, type_check: bool = True, config: Any = None) -> None:
        """Quantize as `EinsumDense` does, which refuses subclasses because they might compute something else."""
        super().quantize(mode, type_check=False, config=config)

    def keep_heads(self, heads: list[int]) -> None:
        """Keep only these heads of the weights, which become new variables. See `kmha.layers.prune_heads`."""
        with contextlib.ExitStack() as stack:
            for name in self.path.split("/")[:-1]:
                stack.enter_context(keras.name_scope(name))
            self._tracker.unlock()
            for name in ("_kernel", "bias", "lora_kernel_a", "lora_kernel_b"):
                if getattr(self, name, None) is not None:
                    self._replace(name, heads)
            self._tracker.lock()

    def _replace(self, name: str, heads: list[int]) -> None:
        """Replace a weight by a new one with the same numbers and, if it has an axis H, with these heads of it."""
        old = getattr(self, name)
        value = ops.convert_to_numpy(old)
        value = value[heads] if name in self._by_head else value
        counted = any(old is weight for weight in self._trainable_variables)
        self._untrack_variable(old)
        new = self.add_weight(
            name=old.name,
            shape=value.shape,
            initializer="zeros",
            dtype=old.dtype,
            trainable=counted,
            regularizer=old.regularizer,
            constraint=old.constraint,
        )
        new.trainable = old.trainable
        new.assign(value)
        setattr(self, name, new)

    def _own_config(self, **arguments: Any) -> dict[str, Any]:
        config = super().get_config()
        for derived in ("equation", "output_shape", "bias_axes"):
            del config[derived]
        return {**config, **arguments}


@keras.saving.register_keras_serializable("kmha")
class HeadProjection(_FloatProjection):
    """Projection of features to heads, `BTI,HIO->BTHO`, with a kernel (H, I, O) and a bias (H, O).

    With the same seed, the initial numbers are those of the (I, H, O) kernel of `keras.layers.MultiHeadAttention`,
    transposed. Drawn directly into (H, I, O), "glorot_uniform" would treat H as a convolution window and give a smaller
    scale (at H=8, I=512, O=64 a standard deviation of 0.0208 instead of 0.0442). For the same reason, the kernel's
    regularizer and constraint receive the kernel transposed to (I, H, O): `UnitNorm(axis=0)` works along I.

    Args:
        num_heads: Number of heads (H).
        head_size: Head size (O).
        rank: Number of axes of the inputs, including B and I.
        use_bias: Add a bias.
        **kwargs: Arguments of `keras.layers.EinsumDense` and `keras.layers.Layer`.

    Call arguments:
        inputs: Features (B, T, I), or (B, T, U, …, I) with `rank` axes.

    Returns:
        Heads (B, T, H, O), of the compute dtype.

    >>> layer = HeadProjection(num_heads=3, head_size=5)
    >>> tuple(layer(keras.ops.ones((2, 7, 4))).shape)
    (2, 7, 3, 5)
    >>> tuple(layer.kernel.shape)
    (3, 4, 5)
    """

    _project = staticmethod(projection.project_heads)
    _by_head = ("_kernel", "bias", "lora_kernel_a")
    _refusal = ""  # the error message, if the layer has refused weights

    def __init__(self, num_heads: int, head_size: int, rank: int = 3, use_bias: bool = True, **kwargs: Any) -> None:
        super().__init__(
            axes.for_rank(axes.PROJECT, rank),
            output_shape=(None,) * (rank - 2) + (num_heads, head_size),
            bias_axes="HO" if use_bias else None,
            **kwargs,
        )
        self._arguments = {"num_heads": num_heads, "head_size": head_size, "rank": rank, "use_bias": use_bias}

    def build(self, input_shape: Any) -> None:
        heads, size = self._arguments["num_heads"], self._arguments["head_size"]
        sharding.check_heads(f"{self.path}/kernel", heads, input_shape[-1], size)
        initializer = self.kernel_initializer
        self.kernel_initializer = _heads_first(initializer)
        super().build(input_shape)
        self.kernel_initializer = initializer
        if not self._stores_input_first:
            _show_input_first(self._kernel)

    def keep_heads(self, heads: list[int]) -> None:
        super().keep_heads(heads)
        self._arguments["num_heads"] = len(heads)
        self.partial_output_shape = (*self.partial_output_shape[:-2], len(heads), self._arguments["head_size"])

    def enable_lora(
        self, rank: int, lora_alpha: int | None = None, a_initializer: Any = "he_uniform", b_initializer: Any = "zeros"
    ) -> None:
        """Enable LoRA as `EinsumDense` does.

        The matrix A, of shape (H, I, rank), starts with the same numbers as in the built-in layer. B is (rank, O).
        """
        a_initializer = keras.initializers.get(a_initializer)
        if not self._stores_input_first:
            a_initializer = _Transposed(a_initializer)
        super().enable_lora(rank, lora_alpha, a_initializer, b_initializer)
        if not self._stores_input_first:
            _show_input_first(self.lora_kernel_a)

    def load_own_variables(self, store: Any) -> None:
        """Load as Keras does. For the kernel of a built-in layer, (I, H, O), raise an error that names a remedy."""
        if self.built and self.quantization_mode is None and "0" in store:
            heads, width, size = ours = tuple(self._kernel.shape)
            if tuple(store["0"].shape) == (width, heads, size) != ours:
                self._refusal = (
                    f"{self.name}: the kernel has the shape (H, I, O) = {ours}. Received: {(width, heads, size)}, the "
                    "built-in layer's (I, H, O). Load the file into the built-in layer, and copy its weights with "
                    "`kmha.interchange`."
                )
        if self._refusal:  # after an error, Keras tries again with an empty store, and would report that second error
            raise ValueError(self._refusal)
        super().load_own_variables(store)

    def quantize(self, mode: str | None = None, type_check: bool = True, config: Any = None) -> None:
        if mode in MATRIX_MODES:
            self._store_input_first()
        super().quantize(mode, type_check, config)

    def quantized_build(self, kernel_shape: Any, mode: str, config: Any = None) -> None:
        if mode in MATRIX_MODES and not self._stores_input_first:
            self._use_input_first_equation()
            kernel_shape = (kernel_shape[1], kernel_shape[0], kernel_shape[2])
        super().quantized_build(kernel_shape, mode, config)

    def get_config(self) -> dict[str, Any]:
        return self._own_config(**self._arguments)

    @property
    def is_plain(self) -> bool:
        """True if the layer computes nothing but `project_heads`."""
        return (
            self.quantization_mode is None
            and self.activation in (None, keras.activations.linear)
            and self.activity_regularizer is None
        )

    @property
    def _stores_input_first(self) -> bool:
        return ",IHO->" in self.equation

    def _use_input_first_equation(self) -> None:
        self.equation = self.equation.replace(",HIO->", ",IHO->")

    def _store_input_first(self) -> None:
        """Change the weights to the built-in's layout (I, H, O), which `MATRIX_MODES` need."""
        if self._stores_input_first:
            return
        self._use_input_first_equation()
        for name in ("_kernel", "lora_kernel_a") if self.lora_enabled else ("_kernel",):
            old = getattr(self, name)
            delattr(self, name)
            new = self.add_weight(
                name=old.name,
                shape=(old.shape[1], old.shape[0], old.shape[2]),
                initializer=_Transposed(lambda _, dtype, value=old.value: value),
                dtype=old.dtype,
                trainable=old.trainable,
                regularizer=self.kernel_regularizer if name == "lora_kernel_a" else None,
            )
            setattr(self, name, new)


def project(layers: list[HeadProjection], inputs: list[Tensor]) -> Any:
    """Return the heads of each layer for its inputs, as `layer(inputs)` does.

    Over several devices that split the heads, layers with the same inputs compute one product with their kernels side
    by side. The gradient of the inputs is then one product too, which the devices add up in one all-reduce, instead of
    one for each layer.
    """
    shared = [each for each in layers if sharding.splits_heads(each) and each.is_plain]
    if len(shared) < 2:
        return tuple(each(x) for each, x in zip(layers, inputs, strict=True))
    heads: dict[int, Tensor] = {}
    for x in {id(x): x for x in inputs}.values():
        group = [each for each, its_inputs in zip(layers, inputs, strict=True) if its_inputs is x and each in shared]
        if len(group) > 1:
            heads.update(zip(map(id, group), _side_by_side(group, x), strict=True))
    return tuple(heads[id(each)] if id(each) in heads else each(x) for each, x in zip(layers, inputs, strict=True))


def _side_by_side(layers: list[HeadProjection], inputs: Tensor) -> list[Tensor]:
    """Return the heads of layers that are plain and have the same inputs."""
    kernel = ops.concatenate([ops.cast(each.kernel, inputs.dtype) for each in layers], axis=2)  # (H, I, all O)
    bias = None if layers[0].bias is None else ops.concatenate([each.bias for each in layers], axis=1)
    ends = list(itertools.accumulate(each.kernel.shape[2] for each in layers))
    return ops.split(projection.project_heads(inputs, kernel, bias), ends[:-1], axis=-1)


@keras.saving.register_keras_serializable("kmha")
class HeadMerge(_FloatProjection):
    """Projection of heads to features, `BTHO,HOE->BTE`, with a kernel (H, O, E) and a bias (E,), as in the built-in.

    Args:
        output_shape: Output features (E), or a tuple of several sizes.
        rank: Number of axes of the inputs, including B, H and O.
        use_bias: Add a bias.
        **kwargs: Arguments of `keras.layers.EinsumDense` and `keras.layers.Layer`.

    Call arguments:
        inputs: Heads (B, T, H, O), or (B, T, U, …, H, O) with `rank` axes.

    Returns:
        Features (B, T, E), of the compute dtype.

    >>> tuple(HeadMerge(11)(keras.ops.ones((2, 7, 3, 5))).shape)
    (2, 7, 11)
    """

    _project = staticmethod(projection.merge_heads)
    _by_head = ("_kernel", "lora_kernel_a")

    def __init__(
        self, output_shape: int | tuple[int, ...], rank: int = 4, use_bias: bool = True, **kwargs: Any
    ) -> None:
        sizes = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        equation = axes.for_rank(axes.MERGE, rank - 1, len(sizes))
        super().__init__(
            equation,
            output_shape=(None,) * (rank - 3) + sizes,
            bias_axes=equation[-len(sizes) :] if use_bias else None,
            **kwargs,
        )
        self._arguments = {"output_shape": sizes, "rank": rank, "use_bias": use_bias}

    def get_config(self) -> dict[str, Any]:
        return self._own_config(**self._arguments)


class _InputFirstConstraint(keras.constraints.Constraint):
    """A constraint of (H, I, …) that applies another constraint to (I, H, …)."""

    def __init__(self, constraint: Any) -> None:
        self._constraint = constraint

    def __call__(self, kernel: Tensor) -> Tensor:
        return ops.transpose(self._constraint(ops.transpose(kernel, (1, 0, 2))), (1, 0, 2))


class _InputFirstRegularizer(keras.regularizers.Regularizer):
    """A regularizer of (H, I, …) that applies another regularizer to (I, H, …)."""

    def __init__(self, regularizer: Any) -> None:
        self._regularizer = regularizer

    def __call__(self, kernel: Tensor) -> Tensor:
        return self._regularizer(ops.transpose(kernel, (1, 0, 2)))


def _show_input_first(kernel: keras.Variable) -> None:
    """Make the constraint and the regularizer of a kernel (H, I, …) see the built-in's layout (I, H, …)."""
    if kernel.constraint is not None and type(kernel.constraint) not in _ELEMENTWISE:
        kernel.constraint = _InputFirstConstraint(kernel.constraint)
    if kernel.regularizer is not None and type(kernel.regularizer) not in _ELEMENTWISE:
        kernel.regularizer = _InputFirstRegularizer(kernel.regularizer)


def _heads_first(initializer: Any) -> Any:
    """Return an initializer of (H, I, O) that draws the numbers that `EinsumDense` draws for (I, H, O)."""
    if isinstance(initializer, VarianceScaling) and (initializer.input_axes is None or initializer.output_axes is None):
        config = initializer.get_config()
        config.update(seed=initializer.seed, input_axes=[0], output_axes=[1, 2])
        initializer = type(initializer).from_config(config)
    return _Transposed(initializer)


class _Transposed(keras.initializers.Initializer):
    """An initializer of (H, I, …) that draws (I, H, …) and swaps the first two axes.

    It is a class because Keras cannot compile a function as an initializer, as it does for large weights on several
    devices.
    """

    def __init__(self, initializer: Any) -> None:
        self._initializer = initializer

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Any:
        heads, width, size = shape
        kernel = ops.transpose(self._initializer((width, heads, size), dtype=dtype), (1, 0, 2))
        # Torch transposes the view alone, and exports to LiteRT read the numbers in their old order.
        return kernel.contiguous() if keras.backend.backend() == "torch" else kernel
