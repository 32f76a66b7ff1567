"""`MultiHeadAttention`: `keras.layers.MultiHeadAttention` with kernels shaped (heads, in, head size)."""

import inspect
import math
from typing import Any

import keras
from keras import constraints, dtype_policies, initializers, ops, regularizers

from kmha.core.attention import Dropout, attend
from kmha.core.folding import Folding
from kmha.core.tensors import Tensor
from kmha.layers import caching, checks, masking
from kmha.layers.explanation import Explanation, explain
from kmha.layers.inner_methods import MASKS, STEPS, InnerMethods, training_of_call
from kmha.layers.projections import project


@keras.saving.register_keras_serializable("kmha")
class MultiHeadAttention(InnerMethods):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), a drop-in for `keras.layers.MultiHeadAttention`.

    The layer multiplies query, key and value by one kernel each. In every head, each query then averages the projected
    values with weights softmax(query · key / √O). The heads are concatenated and multiplied by the output kernel. So
    `key=enc_output` names the *input* of the key projection: K is `enc_output` times the key kernel.

    | step | equation | weights |
    | --- | --- | --- |
    | project | `BTI,HIO->BTHO` | kernels (H, I, O), biases (H, O) |
    | scores | `BTHO,BSHO->BHTS` | |
    | mix | `BHTS,BSHO->BTHO` | |
    | merge | `BTHO,HOE->BTE` | kernel (H, O, E), bias (E,) |

    B is the batch, T query positions, S key positions, H heads, I input features, O the head size, E output features.

    The weights are, in order, those of query, key, gate (with `use_gate`), value and attention_output. With the same
    seed, they start as the built-in's numbers, transposed. The README lists all differences from the built-in under
    "Where kmha differs".

    Args:
        num_heads: Number of heads (H).
        key_dim: Head size of query and key (O).
        value_dim: Head size of value (O). `None` means `key_dim`.
        dropout: Probability of dropping a score in training.
        use_bias: Add biases to the projections.
        output_shape: Output features (E), or a tuple of several sizes. `None` means the query's width.
        attention_axes: Axes to attend over, where the batch axis is 0. `None` means all but the first and last.
        sliding_window: Position t attends only to positions s with |t - s| < sliding_window. `None` means no limit.
        flash_attention: `True` asks for a fused kernel (JAX, torch) or for blocks (TensorFlow). `False` forbids them.
            `None` leaves the choice to `kmha.core.planning`.
        kernel_initializer: Initializer of all kernels. The layer passes it the built-in's shape, (I, H, O).
        bias_initializer: Initializer of all biases.
        kernel_regularizer: Regularizer of all kernels. It also receives them as (I, H, O).
        bias_regularizer: Regularizer of all biases.
        activity_regularizer: Regularizer of the projections' outputs.
        kernel_constraint: Constraint of all kernels. It also receives them as (I, H, O).
        bias_constraint: Constraint of all biases.
        use_gate: Before merging the heads, multiply them by a sigmoid of a projection of the query (Qiu et al. 2025,
            arXiv 2505.06708).
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Query (B, T, I), or with more axes.
        value: Value (B, S, I), with its own number of features.
        key: Key (B, S, I), with its own number of features. `None` means `value`.
        query_mask: Boolean mask (B, T), combined with the mask that `query` carries.
        value_mask: Boolean mask (B, S). `None` means the mask that `value` carries.
        key_mask: Boolean mask (B, S). `None` means the mask that `key` carries.
        attention_mask: Boolean mask that broadcasts to (B, T, S) or (B, H, T, S). True means attend.
        return_attention_scores: Also return the scores before dropout.
        training: Apply dropout.
        use_causal_mask: Position t attends only to positions s ≤ t, along the attention axes.
        cache: Keys and values of S positions, which the query attends to and masks refer to: a tensor (B, 2, S, H, O)
            or a pair of tensors (B, S, H, O), of the compute dtype.
        cache_update_index: Position in the cache of the first query and of the first key, which the layer writes there.
            `None` leaves the cache as it is, as in cross-attention, and ignores key and value.

    Returns:
        The output (B, T, E), with `return_attention_scores` also the scores (B, H, T, S), and with `cache` also the new
        cache, of the compute dtype. A position with nothing to attend to gives zeros (plus the output bias).

    Raises:
        ValueError: If an argument, a shape or a mask is invalid.

    Example:

    >>> import keras, kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5)
    >>> target, enc_output = keras.ops.ones((2, 7, 4)), keras.ops.ones((2, 11, 6))
    >>> output, scores = layer(target, enc_output, return_attention_scores=True)
    >>> [tuple(x.shape) for x in (output, scores, layer.key_dense.kernel)]
    [(2, 7, 4), (2, 3, 7, 11), (3, 6, 5)]
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        with checks.naming_unknown(MultiHeadAttention):
            super().__init__(**kwargs)
        self.supports_masking = True
        self._projection_dtypes: dict[str, Any] = {}  # dtype policies of projections that were quantized before saving
        layer = type(self).__name__
        self._num_heads = checks.size(layer, "num_heads", num_heads, "H", "8 is common.")
        self._key_dim = checks.size(layer, "key_dim", key_dim, "O of query and key", "Try width // num_heads.")
        self._value_dim = self._key_dim
        if value_dim is not None:
            self._value_dim = checks.size(layer, "value_dim", value_dim, "O of value", "None means `key_dim`.")
        self._dropout = checks.rate(layer, "dropout", dropout)
        self._use_bias = checks.flag(layer, "use_bias", use_bias)
        self._use_gate = checks.flag(layer, "use_gate", use_gate)
        self._output_shape = checks.output_shape(layer, output_shape)
        self._attention_axes = checks.attention_axes(layer, attention_axes)
        self._sliding_window = sliding_window
        if sliding_window is not None:
            fix = "None means no limit."
            self._sliding_window = checks.size(layer, "sliding_window", sliding_window, "positions", fix)
        self._flash_attention = checks.flag(layer, "flash_attention", flash_attention, optional=True)
        if flash_attention and dropout > 0 and keras.backend.backend() != "tensorflow":
            fix = "Dropout is not supported when flash attention is enabled. Please set dropout to 0.0."
            raise checks.invalid(layer, "dropout", "0.0 with flash_attention=True", dropout, fix)
        self._kernel_initializer = initializers.get(kernel_initializer)
        self._bias_initializer = initializers.get(bias_initializer)
        self._kernel_regularizer = regularizers.get(kernel_regularizer)
        self._bias_regularizer = regularizers.get(bias_regularizer)
        self._activity_regularizer = regularizers.get(activity_regularizer)
        self._kernel_constraint = constraints.get(kernel_constraint)
        self._bias_constraint = constraints.get(bias_constraint)
        self.seed = checks.seed(layer, seed)
        self._inverse_sqrt_key_dim = 1.0 / math.sqrt(self._key_dim)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Note which inner methods the subclass overrides: a call then takes the way that calls them."""
        super().__init_subclass__(**kwargs)
        methods = (*MASKS, *STEPS, "_compute_attention")
        cls._replaced = frozenset(x for x in methods if getattr(cls, x) is not getattr(MultiHeadAttention, x))

    # `kmha.show.capture` sets these: called with the scores that decoding with a cache computes, and with the sequences
    # that a search has chosen (`kmha.layers.cache.report`).
    _observe: Any = None
    _observe_search: Any = None
    _refuses = False  # whether weights were loaded before the layer was built
    _widths: Any = None  # features of query, value and key, once the layer is built

    num_heads = property(lambda self: self._num_heads, doc="Number of heads (H).")
    key_dim = property(lambda self: self._key_dim, doc="Head size of query and key (O).")
    value_dim = property(lambda self: self._value_dim, doc="Head size of value (O).")
    dropout = property(lambda self: self._dropout, doc="Probability with which a score is dropped in training.")
    use_bias = property(lambda self: self._use_bias, doc="Whether the projections add biases.")
    attention_axes = property(lambda self: self._folding.attention_axes if self._folding else self._attention_axes)
    query_dense = property(lambda self: self._sublayer("_query_dense"))
    key_dense = property(lambda self: self._sublayer("_key_dense"))
    value_dense = property(lambda self: self._sublayer("_value_dense"))
    output_dense = property(lambda self: self._sublayer("_output_dense"))

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        """Make the weights, in the built-in's order. Of the shapes, only the ranks and widths matter."""
        query, value, key = checks.shapes_of(self.name, query_shape, value_shape, key_shape)
        checks.check_widths_known(self.name, query, value, key)
        checks.check_batch_axes(self.name, Folding.of(len(query), self._attention_axes), query, value, key)
        self._widths = query[-1], value[-1], key[-1]
        self._query_dense = self._projection("query", query, self._key_dim)
        self._key_dense = self._projection("key", key, self._key_dim)
        if self._use_gate:
            self._gate_dense = self._projection("gate", query, self._value_dim, activation="sigmoid")
        self._value_dense = self._projection("value", value, self._value_dim)
        self._build_attention(len(query) + 1)
        name = "attention_output"
        self._output_dense = self._make_output_dense(query, self._projection_arguments(name), name)
        self._output_dense.build((*query[:-1], self._num_heads, self._value_dim))

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor = None,
        query_mask: Tensor = None,
        value_mask: Tensor = None,
        key_mask: Tensor = None,
        attention_mask: Tensor = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        cache: Any = None,
        cache_update_index: Any = None,
    ) -> Any:
        folding = self._check(query, value, key, return_attention_scores)
        checks.check_flag(self.name, "use_causal_mask", use_causal_mask)
        key = value if key is None else key
        carried = masking.carried(query, value, key)
        given = {"value_mask": value_mask, "key_mask": key_mask, "attention_mask": attention_mask}
        given |= {"query_mask": query_mask, "carried_mask": carried}
        options: Any = {"causal": use_causal_mask, "training": training, "return_scores": return_attention_scores}
        gate = self._gate_dense(query) if self._use_gate else None  # (B, T, H, O)
        if cache is None and cache_update_index is None:
            mixed, scores, rows = self._attend(folding, query, value, key, given, **options)
        else:
            update = query, value, key, cache, cache_update_index
            mixed, scores, rows, cache = caching.attend(self, *update, given, **options)
        output = self._output_dense(mixed if gate is None else ops.multiply(mixed, gate))  # (B, T, E)
        if rows is not None:
            masking.carry(output, rows)
        if not return_attention_scores and cache is None:
            return output
        return output, *([scores] if return_attention_scores else []), *([] if cache is None else [cache])

    def _attend(
        self,
        folding: Folding,
        query: Tensor,
        value: Tensor,
        key: Tensor,
        given: dict[str, Any],
        *,
        causal: bool,
        training: bool | None,
        return_scores: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Project the inputs and attend. Return mixed values (B, T, H, O), scores or `None`, and the query's mask."""
        structure: dict[str, Any] = {}
        if self._replaced:  # as in Keras, a subclass's own attention gets causality and the window in the mask
            own = {"query_mask": given["query_mask"], "carried_mask": given.pop("carried_mask")}
            _, rows = masking.join(self.name, folding, query, key, self._num_heads, **own)
            mask = self._compute_attention_mask(query, value, **given | {"query_mask": rows, "use_causal_mask": causal})
        else:
            mask, rows = masking.join(self.name, folding, query, key, self._num_heads, **given)
            structure = {"use_causal_mask": True} if causal else {}
            structure |= {"sliding_window": self._sliding_window} if self._sliding_window else {}
        layers = [self._query_dense, self._key_dense, self._value_dense]
        heads: tuple[Tensor, Tensor, Tensor] = project(layers, [query, key, value])  # (B, T or S, H, O)
        return *self._compute_attention(*heads, mask, training, return_scores, **structure), rows

    def _compute_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        sliding_window: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute attention within each head. As in the built-in layer, override it for another kind of attention.

        Args:
            query: Projected query (B, T, H, O), or with more axes.
            key: Projected key (B, S, H, O).
            value: Projected value (B, S, H, O).
            attention_mask: Boolean mask that broadcasts to (B, T, S) or (B, H, T, S). If this method is overridden, the
                mask includes the causal mask and the window.
            training: Apply dropout.
            return_attention_scores: Compute the scores in any case.
            use_causal_mask: Position t attends only to positions s ≤ t.
            sliding_window: Position t attends only to positions s with |t - s| < sliding_window. `None` means no limit.

        Returns:
            The mixed values (B, T, H, O), and the scores (B, H, T, S), or `None` if they were not computed.
        """
        if training is None:
            training = training_of_call()
        if self._replaces_steps:
            structure = {"causal": use_causal_mask, "window": sliding_window}
            return self._replaced_steps(query, key, value, attention_mask, training, **structure)
        folding = self._folding or Folding.of(len(query.shape) - 1, self._attention_axes)
        mixed, scores = attend(
            folding.fold(query),
            folding.fold(key),
            folding.fold(value),
            None if attention_mask is None else folding.fold_mask(attention_mask, query, key),
            scale=self._inverse_sqrt_key_dim,
            causal=use_causal_mask,
            window=sliding_window,
            dropout=Dropout.of(self._dropout_layer, training) if self._dropout else None,
            return_scores=return_attention_scores,
            flash=self._flash,
            training=bool(training),
        )
        mixed = folding.unfold(mixed, like=query)
        return mixed, None if scores is None else folding.unfold_scores(scores, query, key)

    def compute_output_shape(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> tuple[Any, ...]:
        """Return the output's shape (B, T, E) for the shapes of query, value and key."""
        query, _, _ = checks.shapes_of(self.name, query_shape, value_shape, key_shape)
        return (*query[:-1], *self._output_shape) if self._output_shape else query

    def compute_output_spec(self, query: Any, value: Any, key: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Check the shapes as far as they are known. Return the symbolic output, and the scores if asked for."""
        given = inspect.signature(self.call).bind(query, value, key, *args, **kwargs).arguments
        with_scores = given.get("return_attention_scores", False)
        folding = self._check(query, value, key, with_scores)
        key = value if key is None else key
        cache, name, key_shape = given.get("cache"), self.name, key.shape
        masks = {name: mask for name, mask in given.items() if name.endswith("_mask") and hasattr(mask, "shape")}
        if cache is not None or given.get("cache_update_index") is not None:
            name, key_shape, masks = caching.check_symbolic(self, query, key, given, masks)
        masking.check(name, folding, query.shape, key_shape, self._num_heads, **masks)
        shape = self.compute_output_shape(query.shape, value.shape, key.shape)
        results = [keras.KerasTensor(shape, dtype=self.compute_dtype)]
        if with_scores:
            scores = folding.scores_shape(query.shape, key_shape, self._num_heads)
            results.append(keras.KerasTensor(scores, dtype=self.compute_dtype))
        results += [] if cache is None else [caching.spec(self, cache)]
        return results[0] if len(results) == 1 else tuple(results)

    def explain(
        self,
        query_shape: Any,
        value_shape: Any = None,
        key_shape: Any = None,
        *,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool = False,
        eager: bool = False,
    ) -> Explanation:
        """Explain a call with these shapes without making it: path, reason, equations, FLOPs, parameters and memory.

        Args:
            query_shape: Shape (B, T, I), or with more axes. If B is `None`, it counts as 1.
            value_shape: Shape (B, S, I). `None` means the query's shape.
            key_shape: Shape (B, S, I). `None` means the value's shape.
            use_causal_mask: The call's `use_causal_mask`.
            return_attention_scores: The call's `return_attention_scores`.
            training: Explain a training step instead of a forward pass.
            eager: Explain a call outside of a graph, on TensorFlow. `fit` and `predict` make calls in a graph.

        Raises:
            ValueError: If the shapes do not match each other, or T or S is unknown.

        >>> import kmha
        >>> explanation = kmha.MultiHeadAttention(8, 64).explain((1, 4096, 512), use_causal_mask=True, training=True)
        >>> explanation.path, explanation.parameters, explanation.largest_length(2 * 2**30)["direct"] > 4096
        ('blocked', 1050624, True)
        """
        value_shape = query_shape if value_shape is None else value_shape
        shapes = checks.shapes_of(self.name, query_shape, value_shape, key_shape)
        flags = {"use_causal_mask": use_causal_mask, "return_attention_scores": return_attention_scores}
        return explain(self, *shapes, {**flags, "training": training, "eager": eager})

    def get_config(self) -> dict[str, Any]:
        config = checks.config_of(self, MultiHeadAttention, prefix="_", seed=self.seed)
        # `quantize` changes the dtype policies of the projections. The built-in's config does not have them.
        quantized = {layer.name: layer.dtype_policy for layer in self._layers if layer.quantization_mode is not None}
        if quantized:
            config["projection_dtypes"] = {name: dtype_policies.serialize(dtype) for name, dtype in quantized.items()}
        return {**super().get_config(), **config}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        config = dict(config)
        dtypes = config.pop("projection_dtypes", {})
        layer = cls(**config)
        layer._projection_dtypes = {name: dtype_policies.deserialize(dtype) for name, dtype in dtypes.items()}
        return layer

    def set_weights(self, weights: Any) -> None:
        """Set the weights as Keras does. Raise a ValueError before `build`, or for weights of the built-in's layout."""
        checks.check_weights(self, weights)
        super().set_weights(weights)

    def load_own_variables(self, store: Any) -> None:
        # An attention that the saved model never called was not built either, and has nothing to load. After an error,
        # Keras tries again with an empty store, so that the answer is kept.
        self._refuses = self._refuses or (not self.built and checks.stores_any(store, "query_dense", "_query_dense"))
        if self._refuses:
            checks.check_built(self)
        super().load_own_variables(store)

    def _sublayer(self, name: str) -> Any:
        """Return the sublayer `name`, or raise an error if `build` has not made it yet."""
        checks.check_built(self)
        return getattr(self, name)

    def _check(self, query: Any, value: Any, key: Any, return_attention_scores: bool) -> Folding:
        """Raise a ValueError if the layer cannot be called with these inputs. Return the folding of their axes."""
        checks.check_floating(self.name, query=query, value=value, key=key)
        shapes = checks.shapes_of(self.name, query.shape, value.shape, None if key is None else key.shape)
        folding = self._folding or Folding.of(len(shapes[0]), self._attention_axes)
        checks.check_batch_axes(self.name, folding, *shapes)
        if self._widths:
            checks.check_widths(self.name, self._widths, *shapes)
        checks.check_flash(self.name, self._flash, return_attention_scores)
        return folding

    @property
    def _flash(self) -> bool | None:
        """The layer's `flash_attention`, or Keras' global setting if that is `None`."""
        given = self._flash_attention
        return keras.config.is_flash_attention_enabled() if given is None else given
