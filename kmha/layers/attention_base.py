"""What surrounds the computation of `MultiHeadAttention`: its settings, its config, and errors that teach."""

from typing import Any

from keras import backend, constraints, dtype_policies, initializers, regularizers

from kmha.layers import arguments, calls
from kmha.layers.explanation import Explanation, explain

_INNER_METHODS = (
    "_build_attention",
    "_compute_attention_mask",
    "_compute_causal_mask",
    "_compute_sliding_window_mask",
    "_make_output_dense",
    "_masked_softmax",
)


class AttentionBase(calls.TeachingLayer):
    """The constructor's arguments, checked, kept, given back as the config, and handed to the projections."""

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
        with arguments.naming_unknown(AttentionBase):
            super().__init__(**kwargs)
        self.supports_masking = True
        self._projection_dtypes: dict[str, Any] = {}  # of the projections that were quantized before they were saved
        layer = type(self).__name__
        self._num_heads = arguments.size(layer, "num_heads", num_heads, "H", "8 is usual.")
        self._key_dim = arguments.size(layer, "key_dim", key_dim, "O of query and key", "Try width // num_heads.")
        self._value_dim = self._key_dim
        if value_dim is not None:
            self._value_dim = arguments.size(layer, "value_dim", value_dim, "O of value", "None means `key_dim`.")
        self._dropout = arguments.rate(layer, "dropout", dropout)
        self._use_bias = arguments.flag(layer, "use_bias", use_bias)
        self._use_gate = arguments.flag(layer, "use_gate", use_gate)
        self._output_shape = arguments.output_shape(layer, output_shape)
        self._attention_axes = arguments.attention_axes(layer, attention_axes)
        self._sliding_window = sliding_window
        if sliding_window is not None:
            self._sliding_window = arguments.size(
                layer, "sliding_window", sliding_window, "positions", "None: no limit."
            )
        self._flash_attention = arguments.flag(layer, "flash_attention", flash_attention, optional=True)
        if flash_attention and dropout > 0 and backend.backend() != "tensorflow":
            fix = "Dropout is not supported when flash attention is enabled. Please set dropout to 0.0."
            raise arguments.invalid(layer, "dropout", "0.0 with flash_attention=True", dropout, fix)
        self._kernel_initializer = initializers.get(kernel_initializer)
        self._bias_initializer = initializers.get(bias_initializer)
        self._kernel_regularizer = regularizers.get(kernel_regularizer)
        self._bias_regularizer = regularizers.get(bias_regularizer)
        self._activity_regularizer = regularizers.get(activity_regularizer)
        self._kernel_constraint = constraints.get(kernel_constraint)
        self._bias_constraint = constraints.get(bias_constraint)
        self.seed = arguments.seed(layer, seed)

    num_heads = property(lambda self: self._num_heads, doc="H.")
    key_dim = property(lambda self: self._key_dim, doc="O of query and key.")
    value_dim = property(lambda self: self._value_dim, doc="O of value.")
    dropout = property(lambda self: self._dropout, doc="The probability with which a score is dropped in training.")
    use_bias = property(lambda self: self._use_bias, doc="Whether the projections add biases.")

    def explain(
        self,
        query_shape: Any,
        value_shape: Any = None,
        key_shape: Any = None,
        *,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool = False,
    ) -> Explanation:
        """What a call with these shapes would do: its path and why, equations, FLOPs, parameters, memory.

        Args:
            query_shape: (B, T, I), or with more axes; a B of `None` counts as one.
            value_shape: (B, S, I); `None` means the query's.
            key_shape: (B, S, I); `None` means the value's.
            use_causal_mask: as in the call, like the next two.
            return_attention_scores: whether the scores are returned.
            training: whether the call is part of a training step.

        Raises:
            ValueError: the shapes do not fit each other, or T or S is not known.

        >>> import kmha
        >>> explanation = kmha.MultiHeadAttention(8, 64).explain((1, 4096, 512), use_causal_mask=True, training=True)
        >>> explanation.path, explanation.parameters, explanation.largest_length(2 * 2**30)["direct"] > 4096
        ('blocked', 1050624, True)
        """
        value_shape = query_shape if value_shape is None else value_shape
        shapes = calls.shapes_of(self.name, query_shape, value_shape, key_shape)
        flags = {"use_causal_mask": use_causal_mask, "return_attention_scores": return_attention_scores}
        return explain(self, *shapes, {**flags, "training": training})

    def get_config(self) -> dict[str, Any]:
        config = {
            "num_heads": self._num_heads,
            "key_dim": self._key_dim,
            "value_dim": self._value_dim,
            "dropout": self._dropout,
            "use_bias": self._use_bias,
            "output_shape": self._output_shape,
            "attention_axes": self._attention_axes,
            "sliding_window": self._sliding_window,
            "flash_attention": self._flash_attention,
            "kernel_initializer": initializers.serialize(self._kernel_initializer),
            "bias_initializer": initializers.serialize(self._bias_initializer),
            "kernel_regularizer": regularizers.serialize(self._kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self._bias_regularizer),
            "activity_regularizer": regularizers.serialize(self._activity_regularizer),
            "kernel_constraint": constraints.serialize(self._kernel_constraint),
            "bias_constraint": constraints.serialize(self._bias_constraint),
            "use_gate": self._use_gate,
            "seed": self.seed,
        }
        # `quantize` changes the projections' policies, which the built-in's config forgets.
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuses overrides of the built-in's inner methods that nothing here would call."""
        super().__init_subclass__(**kwargs)
        ignored = [name for name in _INNER_METHODS if name in vars(cls)]
        if ignored:
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(ignored)}, which kmha's layer does not have and would not call. "
                "Override `_compute_attention(query, key, value, attention_mask, …)` in place of it."
            )

    def set_weights(self, weights: Any) -> None:
        """As in Keras; a list in the built-in's layout, or one that comes before `build`, is refused with a remedy."""
        calls.check_weights(self, weights)
        super().set_weights(weights)

    def load_own_variables(self, store: Any) -> None:
        calls.check_built(self)
        super().load_own_variables(store)

    def _built(self, name: str) -> Any:
        """The sublayer `name`, which `build` makes."""
        calls.check_built(self)
        return getattr(self, name)

    def _projection_arguments(self, name: str) -> dict[str, Any]:
        """What every projection is built with. Each gets initializers of its own: a shared one would repeat itself."""
        return {
            "name": name,
            "use_bias": self._use_bias,
            "kernel_initializer": _fresh(self._kernel_initializer),
            "bias_initializer": _fresh(self._bias_initializer),
            "kernel_regularizer": self._kernel_regularizer,
            "bias_regularizer": self._bias_regularizer,
            "activity_regularizer": self._activity_regularizer,
            "kernel_constraint": self._kernel_constraint,
            "bias_constraint": self._bias_constraint,
            "dtype": self._projection_dtypes.get(name, self.dtype_policy),
        }


# So that Python's complaint of a missing argument names the class that the user knows.
AttentionBase.__init__.__qualname__ = "MultiHeadAttention.__init__"


def _fresh(initializer: Any) -> Any:
    """A copy that draws its own seed; a plain function has none to draw."""
    if not isinstance(initializer, initializers.Initializer):
        return initializer
    return type(initializer).from_config(initializer.get_config())
