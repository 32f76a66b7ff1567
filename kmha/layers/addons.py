"""`MultiHeadAttention` with the signature, weights and call form of TensorFlow Addons' layer.

TensorFlow Addons, at its end of life since May 2024, had a layer with (heads, in, head size) kernels that takes a list
`[query, key, value]`. Its users change one import:

    from kmha.layers.addons import MultiHeadAttention   # was: from tensorflow_addons.layers import MultiHeadAttention

The mathematics is that of `kmha.MultiHeadAttention` (`kmha.core`); here are only other names and another call.
"""

from typing import Any

import keras
from keras import constraints, initializers, ops, regularizers

from kmha.core.attention import Dropout, attend
from kmha.core.folding import Folding
from kmha.core.projection import merge_heads, project_heads
from kmha.layers import arguments, calls, masking


@keras.saving.register_keras_serializable("kmha.addons", name="MultiHeadAttention")
class MultiHeadAttention(calls.TeachingLayer):
    """Multi-head attention over a list `[query, key, value]`, as `tensorflow_addons.layers.MultiHeadAttention`.

    Weights, by name and in order: `query_kernel` (H, I, O), `key_kernel` (H, I, O), `value_kernel` (H, I, O),
    `projection_kernel` (H, O, E), and `projection_bias` (E,). The projections of query, key and value have no biases.
    Kernels are drawn straight into these shapes, as Addons draws them, which gives "glorot_uniform" a smaller scale
    than it has in `kmha.MultiHeadAttention`.

    Args:
        head_size: O.
        num_heads: H.
        output_size: E; `None` means the value's width.
        dropout: the probability with which a coefficient is dropped in training.
        use_projection_bias: whether the output projection adds a bias.
        return_attn_coef: whether the coefficients (the scores, taken before the dropout) are returned too.
        kernel_initializer: of all kernels.
        kernel_regularizer: of all kernels.
        kernel_constraint: of all kernels.
        bias_initializer: of the bias.
        bias_regularizer: of the bias.
        bias_constraint: of the bias.
        **kwargs: those of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[query, key]` or `[query, key, value]`: (…, T, I), (…, S, I) and (…, S, I), each of a width of its own,
            with any number of batch axes, also none. Without value, the key is the value.
        training: whether coefficients are dropped.
        mask: True (or 1) means attend: (T, S), (B, T, S) or (B, H, T, S); (T, S) or (H, T, S) for inputs without a
            batch axis. Without one, the masks that the inputs carry are used (Addons fails on them).

    Returns:
        (…, T, E), and with `return_attn_coef` the coefficients (…, H, T, S), of the compute dtype. Two things differ
        from Addons: a row with nothing to attend to gives zeros, where Addons averages all values; and
        `compute_output_shape` says the coefficients' true shape, where Addons says (…, S, S).

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
        with arguments.naming_unknown(MultiHeadAttention):
            super().__init__(**kwargs)
        self.supports_masking = True
        layer = type(self).__name__
        self.head_size = arguments.size(layer, "head_size", head_size, "O", "64 is usual.")
        self.num_heads = arguments.size(layer, "num_heads", num_heads, "H", "8 is usual.")
        self.output_size = output_size
        if output_size is not None:
            self.output_size = arguments.size(layer, "output_size", output_size, "E", "None means the value's width.")
        self._dropout_rate = arguments.rate(layer, "dropout", dropout)
        self.use_projection_bias = arguments.flag(layer, "use_projection_bias", use_projection_bias)
        self.return_attn_coef = arguments.flag(layer, "return_attn_coef", return_attn_coef)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_initializer = initializers.get(bias_initializer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias_constraint = constraints.get(bias_constraint)
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        query, key, value = self._three(input_shape, "shapes")
        self.query_kernel = self._kernel("query_kernel", (self.num_heads, query[-1], self.head_size))
        self.key_kernel = self._kernel("key_kernel", (self.num_heads, key[-1], self.head_size))
        self.value_kernel = self._kernel("value_kernel", (self.num_heads, value[-1], self.head_size))
        output_size = self.output_size or value[-1]
        self.projection_kernel = self._kernel("projection_kernel", (self.num_heads, self.head_size, output_size))
        self.projection_bias = None
        if self.use_projection_bias:
            self.projection_bias = self.add_weight(
                name="projection_bias",
                shape=(output_size,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

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
        """Adds a batch axis of one, and takes it off again; a mask (H, T, S) would else be taken for (B, T, S)."""
        if _is_carried(mask):
            mask = [None if padding is None else ops.expand_dims(padding, 0) for padding in mask]
        elif mask is not None and len(mask.shape) == 3:
            mask = ops.expand_dims(mask, 0)
        outputs = self.call([ops.expand_dims(x, 0) for x in tensors], training, mask)
        return tuple(x[0] for x in outputs) if self.return_attn_coef else outputs[0]

    def _joined(self, mask: Any, folding: Folding, query: Any, key: Any) -> Any:
        """The mask for `attend`: what was given, or else what Keras passes of the tensors' own, in a list."""
        masks = {"attention_mask": mask, "name": "mask"}
        if _is_carried(mask):
            masks = dict(zip(("query_mask", "key_mask", "value_mask"), mask, strict=False))
        joined = masking.joined(self.name, folding, query, key, self.num_heads, **masks)
        return None if joined is None else folding.fold_mask(joined, query, key)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """The query's own mask goes on with the output."""
        return masking.carried(inputs[0])

    def compute_output_shape(self, input_shape: Any) -> Any:
        query, key, value = self._three(input_shape, "shapes")
        output = (*query[:-1], self.output_size or value[-1])
        if not self.return_attn_coef:
            return output
        return output, (*query[:-2], self.num_heads, query[-2], key[-2])

    def get_config(self) -> dict[str, Any]:
        config = {
            "head_size": self.head_size,
            "num_heads": self.num_heads,
            "output_size": self.output_size,
            "dropout": self._dropout_rate,
            "use_projection_bias": self.use_projection_bias,
            "return_attn_coef": self.return_attn_coef,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "bias_constraint": constraints.serialize(self.bias_constraint),
        }
        return {**super().get_config(), **config}

    def _kernel(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def _three(self, inputs: Any, what: str) -> tuple[Any, Any, Any]:
        """Query, key and value of a list of two or three; a value of `None` is as good as none."""
        is_list = isinstance(inputs, (list, tuple)) and len(inputs) in (2, 3)
        if not is_list or isinstance(inputs[0], int | None) or inputs[1] is None:
            raise ValueError(
                f"{self.name}: expected a list of two or three {what}, [query, key] or [query, key, value]. Received: "
                f"{inputs!r}. For separate arguments, (query, value, key), use `kmha.MultiHeadAttention`."
            )
        query, key, *value = inputs
        return query, key, key if not value or value[0] is None else value[0]

    def _folding(self, query: Any, key: Any, value: Any) -> Folding:
        """All axes but the last two are the batch."""
        calls.check_floating(self.name, query=query, key=key, value=value)
        shapes = calls.shapes_of(self.name, query.shape, value.shape, key.shape)
        folding = Folding.of(len(shapes[0]), (-2,))
        calls.check_batch_axes(self.name, folding, *shapes)
        built = tuple(kernel.shape[1] for kernel in (self.query_kernel, self.value_kernel, self.key_kernel))
        calls.check_widths(self.name, built, *shapes)
        return folding


def _is_carried(mask: Any) -> bool:
    """Whether `mask` is Keras' list of the inputs' own masks, and no list of numbers."""
    return isinstance(mask, (list, tuple)) and all(x is None or len(getattr(x, "shape", ())) > 0 for x in mask)
