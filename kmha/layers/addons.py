"""`MultiHeadAttention` with the signature, weights and call form of TensorFlow Addons' layer.

TensorFlow Addons reached its end of life in May 2024. Its layer has kernels (heads, in, head size) and takes a list
`[query, key, value]`. Users of that layer change one import:

    from kmha.layers.addons import MultiHeadAttention   # was: from tensorflow_addons.layers import MultiHeadAttention

The mathematics is that of `kmha.MultiHeadAttention` (`kmha.core`). Only the names and the call differ.
"""

from typing import Any

import keras
from keras import constraints, initializers, ops, regularizers

from kmha.core.attention import Dropout, attend
from kmha.core.folding import Folding
from kmha.core.projection import merge_heads, project_heads
from kmha.core.tensors import Tensor
from kmha.layers import checks, masking, sharding


@keras.saving.register_keras_serializable("kmha.addons", name="MultiHeadAttention")
class MultiHeadAttention(checks.CheckedLayer):
    """Multi-head attention over a list `[query, key, value]`, like `tensorflow_addons.layers.MultiHeadAttention`.

    The weights are, in order, `query_kernel` (H, I, O), `key_kernel` (H, I, O), `value_kernel` (H, I, O),
    `projection_kernel` (H, O, E), and `projection_bias` (E,). The projections of query, key and value have no biases.
    As in Addons, the initializers draw kernels directly in these shapes. This gives "glorot_uniform" a smaller scale
    than in `kmha.MultiHeadAttention`.

    Args:
        head_size: Head size (O).
        num_heads: Number of heads (H).
        output_size: Output features (E). `None` means as many as the value has.
        dropout: Probability of dropping a coefficient in training.
        use_projection_bias: Add a bias to the output projection.
        return_attn_coef: Also return the coefficients, which are the scores before dropout.
        kernel_initializer: Initializer of all kernels.
        kernel_regularizer: Regularizer of all kernels.
        kernel_constraint: Constraint of all kernels.
        bias_initializer: Initializer of the output projection's bias.
        bias_regularizer: Regularizer of this bias.
        bias_constraint: Constraint of this bias.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[query, key]` or `[query, key, value]`, of shapes (…, T, I), (…, S, I) and (…, S, I). Each has its own
            number of features. There may be any number of batch axes, including none. Without a value, the key is the
            value.
        training: Apply dropout.
        mask: Mask (T, S), (B, T, S) or (B, H, T, S), where True (or 1) means attend. For inputs without a batch axis,
            (T, S) or (H, T, S). Without a mask, the layer uses the masks that the inputs carry (Addons fails on these).

    Returns:
        The output (…, T, E), and with `return_attn_coef` also the coefficients (…, H, T, S). Both have the compute
        dtype. Two things differ from Addons. A query with nothing to attend to gives zeros, where Addons averages all
        values. And `compute_output_shape` returns the true shape of the coefficients, where Addons returns (…, S, S).

    Example:

    >>> import keras
    >>> layer = MultiHeadAttention(head_size=5, num_heads=3, output_size=11)
    >>> tuple(layer([keras.ops.ones((2, 7, 4)), keras.ops.ones((2, 13, 6))]).shape)
    (2, 7, 11)
    >>> [(weight.name, tuple(weight.shape)) for weight in layer.weights][:2]
    [('query_kernel', (3, 4, 5)), ('key_kernel', (3, 6, 5))]
    """

    def __init__(
        self,
        head_size: int,
        num_heads: int,
        output_size: int | None = None,
        dropout: float = 0.0,
        use_projection_bias: bool = True,
        return_attn_coef: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_initializer: Any = "zeros",
        bias_regularizer: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        with checks.naming_unknown(MultiHeadAttention):
            super().__init__(**kwargs)
        self.supports_masking = True
        layer = type(self).__name__
        self.head_size = checks.size(layer, "head_size", head_size, "O", "64 is common.")
        self.num_heads = checks.size(layer, "num_heads", num_heads, "H", "8 is common.")
        self.output_size = output_size
        if output_size is not None:
            self.output_size = checks.size(layer, "output_size", output_size, "E", "None means the value's width.")
        self._dropout_rate = checks.rate(layer, "dropout", dropout)
        self.use_projection_bias = checks.flag(layer, "use_projection_bias", use_projection_bias)
        self.return_attn_coef = checks.flag(layer, "return_attn_coef", return_attn_coef)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_initializer = initializers.get(bias_initializer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias_constraint = constraints.get(bias_constraint)
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        query, key, value = self._three(input_shape, "shapes")
        sharding.check_heads(f"{self.path}/query_kernel", self.num_heads, query[-1], self.head_size)
        self.query_kernel = self._weight("kernel", "query_kernel", (self.num_heads, query[-1], self.head_size))
        self.key_kernel = self._weight("kernel", "key_kernel", (self.num_heads, key[-1], self.head_size))
        self.value_kernel = self._weight("kernel", "value_kernel", (self.num_heads, value[-1], self.head_size))
        output_size = self.output_size or value[-1]
        kernel_shape = self.num_heads, self.head_size, output_size
        self.projection_kernel = self._weight("kernel", "projection_kernel", kernel_shape)
        self.projection_bias = None
        if self.use_projection_bias:
            self.projection_bias = self._weight("bias", "projection_bias", (output_size,))

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        tensors = query, key, value = self._three(inputs, "tensors")
        if isinstance(mask, (list, tuple)) and not _is_carried(mask):
            mask = ops.convert_to_tensor(mask)
        if len(query.shape) == 2:
            return self._call_without_batch(tensors, training, mask)
        folding = self._folding(query, key, value)
        mask = self._joined(mask, folding, query, key)
        kernels = self.query_kernel, self.key_kernel, self.value_kernel
        heads = [project_heads(x, ops.cast(kernel, x.dtype)) for x, kernel in zip(tensors, kernels, strict=True)]
        query_heads, key_heads, value_heads = map(folding.fold, heads)
        mixed, coefficients = attend(
            query_heads,
            key_heads,
            value_heads,
            mask,
            dropout=Dropout.of(self.dropout, training),
            return_scores=self.return_attn_coef,
            training=bool(training),
        )
        mixed = folding.unfold(mixed, like=heads[0])
        output = merge_heads(mixed, ops.cast(self.projection_kernel, mixed.dtype), self.projection_bias)
        return (output, folding.unfold_scores(coefficients, query, key)) if self.return_attn_coef else output

    def _call_without_batch(self, tensors: Any, training: bool | None, mask: Any) -> Any:
        """Call the layer with a batch axis of size one. A mask (H, T, S) gets it too, so as not to mean (B, T, S)."""
        if _is_carried(mask):
            mask = [None if padding is None else ops.expand_dims(padding, 0) for padding in mask]
        elif mask is not None and len(mask.shape) == 3:
            mask = ops.expand_dims(mask, 0)
        outputs = self.call([ops.expand_dims(x, 0) for x in tensors], training, mask)
        return tuple(x[0] for x in outputs) if self.return_attn_coef else outputs[0]

    def _joined(self, mask: Any, folding: Folding, query: Tensor, key: Tensor) -> Tensor:
        """Return the mask for `attend`, from `mask`: the caller's mask, or the list of masks that the inputs carry."""
        masks = {"attention_mask": mask, "name": "mask"}
        if _is_carried(mask):
            masks = dict(zip(("query_mask", "key_mask", "value_mask"), mask, strict=False))
        joined, _ = masking.join(self.name, folding, query, key, self.num_heads, **masks)
        return None if joined is None else folding.fold_mask(joined, query, key)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Return the mask that the query carries, for the output to carry."""
        return masking.carried(inputs[0])

    def compute_output_shape(self, input_shape: Any) -> Any:
        query, key, value = self._three(input_shape, "shapes")
        output = (*query[:-1], self.output_size or value[-1])
        if not self.return_attn_coef:
            return output
        return output, (*query[:-2], self.num_heads, query[-2], key[-2])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **checks.config_of(self, MultiHeadAttention, dropout=self._dropout_rate)}

    def _weight(self, kind: str, name: str, shape: tuple[int, ...]) -> Any:
        """Add a weight with the initializer, regularizer and constraint of its kind, "kernel" or "bias"."""
        roles = {role: getattr(self, f"{kind}_{role}") for role in ("initializer", "regularizer", "constraint")}
        return self.add_weight(name=name, shape=shape, **roles)

    def _three(self, inputs: Any, kind: str) -> tuple[Any, Any, Any]:
        """Return query, key and value from a list of two or three. A value of `None` is replaced by the key."""
        is_list = isinstance(inputs, (list, tuple)) and len(inputs) in (2, 3)
        if not is_list or isinstance(inputs[0], int | None) or inputs[1] is None:
            raise ValueError(
                f"{self.name}: expected a list of two or three {kind}, [query, key] or [query, key, value]. Received: "
                f"{inputs!r}. `kmha.MultiHeadAttention` takes separate arguments, (query, value, key)."
            )
        query, key, *value = inputs
        return query, key, key if not value or value[0] is None else value[0]

    def _folding(self, query: Tensor, key: Tensor, value: Tensor) -> Folding:
        """Check the inputs, and fold all axes but the last two into the batch."""
        checks.check_floating(self.name, query=query, key=key, value=value)
        shapes = checks.shapes_of(self.name, query.shape, value.shape, key.shape)
        folding = Folding.of(len(shapes[0]), (-2,))
        checks.check_batch_axes(self.name, folding, *shapes)
        built = tuple(kernel.shape[1] for kernel in (self.query_kernel, self.value_kernel, self.key_kernel))
        checks.check_widths(self.name, built, *shapes)
        return folding


def _is_carried(mask: Any) -> bool:
    """Tell whether `mask` is Keras' list of the masks that the inputs carry, and not a list of numbers."""
    return isinstance(mask, (list, tuple)) and all(x is None or len(getattr(x, "shape", ())) > 0 for x in mask)
