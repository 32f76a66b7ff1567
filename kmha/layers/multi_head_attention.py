"""`MultiHeadAttention`: `keras.layers.MultiHeadAttention` with kernels shaped (heads, in, head size)."""

import inspect
import math
from typing import Any

import keras
from keras import ops

from kmha.core import masks
from kmha.core.attention import Dropout, attend
from kmha.core.folding import Folding
from kmha.layers import calls, masking
from kmha.layers.attention_base import AttentionBase
from kmha.layers.projections import HeadMerge, HeadProjection


@keras.saving.register_keras_serializable("kmha")
class MultiHeadAttention(AttentionBase):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), a drop-in for `keras.layers.MultiHeadAttention`.

    Query, key and value are each multiplied by a kernel of their own; every head then averages the projected values
    with weights softmax(query · key / √O); the heads are concatenated and multiplied by the output kernel. So
    `key=enc_output` names the *input* of the key projection: K is `enc_output` times the key kernel.

    | step | equation | weights |
    | --- | --- | --- |
    | project | `BTI,HIO->BTHO` | kernels (H, I, O), biases (H, O) |
    | scores | `BTHO,BSHO->BHTS` | |
    | mix | `BHTS,BSHO->BTHO` | |
    | merge | `BTHO,HOE->BTE` | kernel (H, O, E), bias (E,) |

    Weights, in order: query, key, gate (with `use_gate`), value, attention_output. At the same seed they start from the
    built-in's numbers, transposed. What differs from the built-in is listed in the README, "Where kmha differs".

    Args:
        num_heads: H.
        key_dim: O of query and key.
        value_dim: O of value; `None` means `key_dim`.
        dropout: the probability with which a score is dropped in training.
        use_bias: whether the projections add biases.
        output_shape: E, or a tuple of several; `None` means the query's width.
        attention_axes: the axes attended over, B being 0; `None` means all but the first and the last.
        sliding_window: position t attends to |t - s| < sliding_window only; `None` is no limit.
        flash_attention: `True` asks for a fused kernel (JAX, torch) or for blocks (TensorFlow), `False` forbids them,
            `None` leaves the choice to `kmha.core.planning`.
        kernel_initializer: of all kernels; it draws in the built-in's shape, (I, H, O).
        bias_initializer: of all biases.
        kernel_regularizer: of all kernels.
        bias_regularizer: of all biases.
        activity_regularizer: of the projections' outputs.
        kernel_constraint: of all kernels.
        bias_constraint: of all biases.
        use_gate: whether a sigmoid of a projection of the query multiplies the heads before they are merged
            (Qiu et al. 2025, arXiv 2505.06708).
        seed: of the dropout.
        **kwargs: those of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: (B, T, I), or with more axes.
        value: (B, S, I), of a width of its own.
        key: (B, S, I), of a width of its own; `None` means `value`.
        query_mask: boolean (B, T); joined with what `query` carries.
        value_mask: boolean (B, S); `None` means what `value` carries.
        key_mask: boolean (B, S); `None` means what `key` carries.
        attention_mask: boolean, True means attend; broadcasts to (B, T, S) or (B, H, T, S).
        return_attention_scores: whether the scores, taken before the dropout, are returned too.
        training: whether scores are dropped.
        use_causal_mask: position t attends to s ≤ t only, along the attention axes.

    Returns:
        (B, T, E), and with `return_attention_scores` the scores (B, H, T, S), of the compute dtype. A position with
        nothing to attend to gives zeros (plus the output bias).

    Raises:
        ValueError: an argument, a shape or a mask does not fit; the message says how to mend it.

    >>> import keras, kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5)
    >>> target, enc_output = keras.ops.ones((2, 7, 4)), keras.ops.ones((2, 11, 6))
    >>> output, scores = layer(target, enc_output, return_attention_scores=True)
    >>> [tuple(x.shape) for x in (output, scores, layer.key_dense.kernel)]
    [(2, 7, 4), (2, 3, 7, 11), (3, 6, 5)]
    """

    _folding: Any = None  # a Folding, once the layer is built
    attention_axes = property(lambda self: self._folding.attention_axes if self._folding else self._attention_axes)
    query_dense = property(lambda self: self._built("_query_dense"))
    key_dense = property(lambda self: self._built("_key_dense"))
    value_dense = property(lambda self: self._built("_value_dense"))
    output_dense = property(lambda self: self._built("_output_dense"))

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        """Makes the weights, in the built-in's order, for these shapes; only ranks and widths matter."""
        query, value, key = calls.shapes_of(self.name, query_shape, value_shape, key_shape)
        calls.check_widths_known(self.name, query, value, key)
        self._folding = Folding.of(len(query), self._attention_axes)
        calls.check_batch_axes(self.name, self._folding, query, value, key)
        self._widths = query[-1], value[-1], key[-1]
        self._query_dense = self._projection("query", query, self._key_dim)
        self._key_dense = self._projection("key", key, self._key_dim)
        if self._use_gate:
            self._gate_dense = self._projection("gate", query, self._value_dim, activation="sigmoid")
        self._value_dense = self._projection("value", value, self._value_dim)
        self._dropout_layer = keras.layers.Dropout(self._dropout, dtype=self.dtype_policy, seed=self.seed)
        self._output_dense = HeadMerge(
            self._output_shape or (query[-1],), rank=len(query) + 1, **self._projection_arguments("attention_output")
        )
        self._output_dense.build((*query[:-1], self._num_heads, self._value_dim))

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        self._check(query, value, key, return_attention_scores)
        calls.check_flag(self.name, "use_causal_mask", use_causal_mask)
        key = value if key is None else key
        query_mask = masking.of_query(self.name, query_mask, query)
        given = query_mask, value_mask, key_mask, attention_mask
        mask = masking.joined(self.name, self._folding, query, key, self._num_heads, *given)
        mask, structure = self._structure(mask, query, key, use_causal_mask)
        gate = self._gate_dense(query) if self._use_gate else None
        heads = self._query_dense(query), self._key_dense(key), self._value_dense(value)
        mixed, scores = self._compute_attention(*heads, mask, training, return_attention_scores, **structure)
        output = self._output_dense(mixed if gate is None else ops.multiply(mixed, gate))
        if query_mask is not None:
            masking.carry(output, query_mask)
        return (output, scores) if return_attention_scores else output

    def _compute_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> tuple[Any, Any]:
        """Attention between heads; the method to override for another kind, as in the built-in layer.

        Args:
            query: (B, T, H, O), or with more axes.
            key: (B, S, H, O).
            value: (B, S, H, O).
            attention_mask: boolean, broadcasts to (B, T, S) or (B, H, T, S). It holds the causal mask and the window
                too where this method is overridden.
            training: whether scores are dropped.
            return_attention_scores: whether the scores are wanted.
            use_causal_mask: whether t attends to s ≤ t only.

        Returns:
            ((B, T, H, O), scores (B, H, T, S) or `None`).
        """
        fold = self._folding.fold
        mixed, scores = attend(
            fold(query),
            fold(key),
            fold(value),
            None if attention_mask is None else self._folding.fold_mask(attention_mask, query, key),
            causal=use_causal_mask,
            window=self._sliding_window,
            dropout=Dropout.of(self._dropout_layer, training),
            return_scores=return_attention_scores,
            flash=self._flash,
            training=bool(training),
        )
        mixed = self._folding.unfold(mixed, like=query)
        return mixed, None if scores is None else self._folding.unfold_scores(scores, query, key)

    def compute_output_shape(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> tuple[Any, ...]:
        """(B, T, E) for shapes of query, value and key."""
        query, _, _ = calls.shapes_of(self.name, query_shape, value_shape, key_shape)
        return (*query[:-1], *self._output_shape) if self._output_shape else query

    def compute_output_spec(self, query: Any, value: Any, key: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Symbolic output, and scores (B, H, T, S) where they are asked for; checks what can be known by then."""
        given = inspect.signature(self.call).bind(query, value, key, *args, **kwargs).arguments
        with_scores = given.get("return_attention_scores", False)
        folding = self._check(query, value, key, with_scores)
        key = value if key is None else key
        for name, x, letter in (("query_mask", query, "T"), ("value_mask", value, "S"), ("key_mask", key, "S")):
            if hasattr(given.get(name), "shape"):
                masking.check_padding(self.name, name, given[name], x.shape, letter)
        if hasattr(given.get("attention_mask"), "shape"):
            sizes = query.shape, key.shape, self._num_heads
            masking.check_attention_mask(self.name, given["attention_mask"], folding, *sizes)
        shape = self.compute_output_shape(query.shape, value.shape, key.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not with_scores:
            return output
        scores = folding.scores_shape(query.shape, key.shape, self._num_heads)
        return output, keras.KerasTensor(scores, dtype=self.compute_dtype)

    def _projection(self, name: str, shape: tuple[Any, ...], head_size: int, **kwargs: Any) -> HeadProjection:
        layer = HeadProjection(
            self._num_heads, head_size, rank=len(shape), **kwargs, **self._projection_arguments(name)
        )
        layer.build(shape)
        return layer

    def _check(self, query: Any, value: Any, key: Any, return_attention_scores: bool) -> Folding:
        """Raises a ValueError if the layer cannot be called with these; returns how their axes are folded."""
        calls.check_floating(self.name, query=query, value=value, key=key)
        shapes = calls.shapes_of(self.name, query.shape, value.shape, None if key is None else key.shape)
        folding = self._folding or Folding.of(len(shapes[0]), self._attention_axes)
        calls.check_batch_axes(self.name, folding, *shapes)
        if self.built:
            calls.check_widths(self.name, self._widths, *shapes)
        calls.check_flash(self.name, self._flash, return_attention_scores)
        return folding

    def _structure(self, mask: Any, query: Any, key: Any, causal: bool) -> tuple[Any, dict[str, bool]]:
        """The mask and the keywords for `_compute_attention`: an override gets everything in the mask, as in Keras."""
        if not self._overrides:
            return mask, {"use_causal_mask": causal}
        rows, columns = self._folding.positions(query), self._folding.positions(key)
        shape = (1,) * len(self._folding.batch_axes) + (*rows, *columns)
        rows, columns = math.prod(rows), math.prod(columns)
        causal_mask = ops.reshape(masks.causal(rows, columns), shape) if causal else None
        window = self._sliding_window
        window_mask = None if window is None else ops.reshape(masks.window(rows, columns, window), shape)
        return masks.combine(mask, causal_mask, window_mask), {}

    @property
    def _overrides(self) -> bool:
        """Whether a subclass computes attention in a way of its own."""
        return type(self)._compute_attention is not MultiHeadAttention._compute_attention

    @property
    def _flash(self) -> bool | None:
        given = self._flash_attention
        return keras.config.is_flash_attention_enabled() if given is None else given
