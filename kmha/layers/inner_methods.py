"""The private methods of the built-in layer, which subclasses call and override, with the same names and meanings."""

import string
from typing import Any

import keras
from keras import initializers, ops

# Keras has no public name for what a call passes on.
from keras.src.backend.common import global_state

from kmha.core import masks
from kmha.core.folding import Folding
from kmha.core.tensors import Tensor
from kmha.layers import checks, masking
from kmha.layers.projections import HeadMerge, HeadProjection

# If a subclass overrides one of these, `call` computes masks and attention as the built-in does, from these methods.
MASKS = ("_compute_attention_mask", "_compute_causal_mask", "_compute_sliding_window_mask")
STEPS = ("_masked_softmax", "_build_attention")


class InnerMethods(checks.CheckedLayer):
    """The base of `MultiHeadAttention`, which calls these methods, so that an override of any of them acts."""

    _attention_axes: Any
    _folding: Any = None  # a Folding, once the layer is built
    _replaced: frozenset[str] = frozenset()  # the methods that a subclass overrides

    def _get_common_kwargs_for_sublayer(self) -> dict[str, Any]:
        """Return the arguments of a projection. They include its own initializers: a shared one repeats its draws."""
        return {
            "kernel_initializer": _copied(self._kernel_initializer),
            "bias_initializer": _copied(self._bias_initializer),
            "kernel_regularizer": self._kernel_regularizer,
            "bias_regularizer": self._bias_regularizer,
            "activity_regularizer": self._activity_regularizer,
            "kernel_constraint": self._kernel_constraint,
            "bias_constraint": self._bias_constraint,
            "dtype": self.dtype_policy,
        }

    def _projection(self, name: str, shape: tuple[Any, ...], head_size: int, **kwargs: Any) -> HeadProjection:
        kwargs |= self._projection_arguments(name)
        layer = HeadProjection(
            self._num_heads, head_size, rank=len(shape), use_bias=self._use_bias, name=name, **kwargs
        )
        layer.build(shape)
        return layer

    def _projection_arguments(self, name: str) -> dict[str, Any]:
        """Return the arguments of a projection, with its dtype policy if it was quantized before saving."""
        dtypes = {"dtype": self._projection_dtypes[name]} if name in self._projection_dtypes else {}
        return {**self._get_common_kwargs_for_sublayer(), **dtypes}

    def _make_output_dense(self, query_shape: Any, common_kwargs: dict[str, Any], name: str | None = None) -> Any:
        """Return the projection of the heads, not built yet."""
        sizes = self._output_shape or (query_shape[-1],)
        return HeadMerge(sizes, rank=len(query_shape) + 1, use_bias=self._use_bias, name=name, **common_kwargs)

    def _build_attention(self, rank: int) -> None:
        """Make what attention in the heads needs, for projected tensors (B, T, H, O) with `rank` axes."""
        self._folding = Folding.of(rank - 1, self._attention_axes)
        self._attention_axes = self._folding.attention_axes
        self._dot_product_equation, self._combine_equation = _equations(self._folding, rank)
        axes = tuple(range(-len(self._folding.attention_axes), 0))
        self._softmax = keras.layers.Softmax(axis=axes, dtype=self.dtype_policy)
        self._dropout_layer = keras.layers.Dropout(self._dropout, dtype=self.dtype_policy, seed=self.seed)

    def _masked_softmax(self, attention_scores: Tensor, attention_mask: Tensor = None) -> Tensor:
        """Return the softmax of scores (B, H, T, S) over S, with a mask that may lack the axis H."""
        if attention_mask is not None:
            attention_mask = self._folding.with_missing_axes(attention_mask, len(attention_scores.shape))
        return self._softmax(attention_scores, mask=attention_mask)

    def _compute_attention_mask(
        self,
        query: Tensor,
        value: Tensor,
        query_mask: Tensor = None,
        value_mask: Tensor = None,
        key_mask: Tensor = None,
        attention_mask: Tensor = None,
        use_causal_mask: bool = False,
    ) -> Tensor:
        """Return the boolean mask (B, T, S) or (B, H, T, S) of what all masks and the window allow, or `None`."""
        folding = self._folding_of(query)
        query, value = (x[..., 0] if len(x.shape) > folding.rank else x for x in (query, value))  # projected: (B, T, H)
        given = query_mask, value_mask, key_mask, attention_mask
        mask, _ = masking.join(self.name, folding, query, value, self._num_heads, *given)
        causal = self._compute_causal_mask(query, value) if use_causal_mask else None
        window = None if self._sliding_window is None else self._compute_sliding_window_mask(query, value)
        return folding.combine(folding.combine(mask, causal), window)

    def _compute_causal_mask(self, query: Tensor, value: Tensor = None) -> Tensor:
        """Return the mask (1, T, S) in which position t attends to positions s ≤ t."""
        return self._structured_mask(query, value, causal=True)

    def _compute_sliding_window_mask(self, query: Tensor, value: Tensor = None) -> Tensor:
        """Return the mask (1, T, S) in which position t attends to positions within the window."""
        return self._structured_mask(query, value, window=self._sliding_window)

    def _structured_mask(self, query: Tensor, value: Tensor, causal: bool = False, window: int | None = None) -> Tensor:
        folding, value = self._folding_of(query), query if value is None else value
        mask = masks.structured(folding.length(query), folding.length(value), causal, window)
        return folding.align_pairs(mask, query, value)

    def _folding_of(self, x: Tensor) -> Folding:
        """Return the layer's folding, or before `build` that of a layer for inputs like `x`."""
        return self._folding or Folding.of(len(x.shape), self._attention_axes)

    @property
    def _replaces_steps(self) -> bool:
        """Tell whether the softmax, the dropout or an equation is not kmha's own."""
        parts = ("_softmax", keras.layers.Softmax), ("_dropout_layer", keras.layers.Dropout)
        own = all(type(getattr(self, name, None)) in (kind, type(None)) for name, kind in parts)
        return not own or not self._replaced.isdisjoint(STEPS)

    def _replaced_steps(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, training: Any, **structure: Any
    ) -> tuple[Tensor, Tensor]:
        """Compute attention as the built-in writes it out, from the parts that `_replaces_steps` is about."""
        if any(structure.values()):
            mask = masks.combine(mask, self._structured_mask(query, key, **structure))
        query = ops.multiply(query, ops.cast(self._inverse_sqrt_key_dim, query.dtype))
        scores = self._masked_softmax(ops.einsum(self._dot_product_equation, key, query), mask)
        dropped = self._dropout_layer(scores, training=training)
        return ops.einsum(self._combine_equation, dropped, value), scores


def training_of_call() -> Any:
    """Return the `training` that the outermost layer was called with, as Keras passes it on to layers inside layers."""
    context = global_state.get_global_attribute("current_call_ctx")
    return None if context is None else context.get_value("training")


def _equations(folding: Folding, rank: int) -> tuple[str, str]:
    """Return the einsums of key and query, and of scores and value, for projected tensors with `rank` axes.

    >>> _equations(Folding.of(3, None), 4)
    ('aecd,abcd->acbe', 'acbe,aecd->abcd')
    """
    query = string.ascii_lowercase[:rank]
    key = list(query)
    for number, axis in enumerate(sorted(folding.attention_axes)):
        key[axis] = string.ascii_lowercase[rank + number]
    batch = "".join(query[axis] for axis in folding.batch_axes) + query[-2]
    rows, columns = ("".join(x[axis] for axis in folding.attention_axes) for x in (query, key))
    scores, source = batch + rows + columns, "".join(key)
    return f"{source},{query}->{scores}", f"{scores},{source}->{query}"


def _copied(initializer: Any) -> Any:
    """Return a copy of the initializer, with a new seed. A plain function has no seed, and is returned as it is."""
    if not isinstance(initializer, initializers.Initializer):
        return initializer
    return type(initializer).from_config(initializer.get_config())
