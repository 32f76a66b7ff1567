"""The parts that encoder and decoder share: sublayers, a block of sublayers, and a stack of blocks on an embedding."""

from typing import Any

import keras
from keras import ops

from kmha.core import masks
from kmha.core.normalization import normalize
from kmha.core.tensors import Tensor
from kmha.layers import checks, masking, sharding
from kmha.layers.embedding import PositionalEncoding, TokenEmbedding
from kmha.layers.multi_head_attention import MultiHeadAttention

# The options that encoder and decoder pass on to each of their blocks.
OPTIONS = ("key_dim", "norm", "activation", "residual_dropout_rate", "attention")


@keras.saving.register_keras_serializable("kmha")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` with a faster gradient on TensorFlow.

    It uses this gradient (`kmha.core.normalization`) for a normalization over the last axis with both weights.
    Arguments, weights and numbers are those of Keras.

    >>> import numpy as np
    >>> print(np.array(LayerNormalization(epsilon=1e-6)(np.array([[1.0, 3.0]]))).round(3))
    [[-1.  1.]]
    """

    def call(self, inputs: Tensor) -> Tensor:
        last = self.axis in (-1, len(inputs.shape) - 1, [-1], [len(inputs.shape) - 1])
        plain = last and self.center and self.scale and not self.rms_scaling
        if not plain or keras.backend.backend() != "tensorflow":
            return super().call(inputs)
        return normalize(inputs, self.gamma, self.beta, self.epsilon)


@keras.saving.register_keras_serializable("kmha")
class FeedForward(keras.layers.Layer):
    """Two dense layers at every position: max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, section 3.3).

    Both layers are `keras.layers.Dense`. Their inputs have (B, T) folded into one axis. Otherwise TensorFlow would
    compute each kernel's gradient as B separate products and add them.

    Args:
        fully_connected_dim: Number of features between the two layers.
        embedding_dim: Number of output features.
        activation: Activation between the two layers.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: Features (B, T, I), or with other axes before I.

    Returns:
        Features (B, T, embedding_dim), of the compute dtype.

    >>> layer = FeedForward(fully_connected_dim=7, embedding_dim=5)
    >>> tuple(layer(keras.ops.ones((2, 3, 5))).shape)
    (2, 3, 5)
    """

    def __init__(self, fully_connected_dim: int, embedding_dim: int, activation: Any = "relu", **kwargs: Any) -> None:
        with checks.naming_unknown(FeedForward):
            super().__init__(**kwargs)
        layer = type(self).__name__
        self.supports_masking = True
        self.fully_connected_dim = _hidden_size(layer, fully_connected_dim)
        self.embedding_dim = checks.size(layer, "embedding_dim", embedding_dim, "features", "The paper has 512.")
        self.dense1 = keras.layers.Dense(fully_connected_dim, activation, dtype=self.dtype_policy, name="dense1")
        self.dense2 = keras.layers.Dense(embedding_dim, dtype=self.dtype_policy, name="dense2")

    def build(self, x_shape: Any) -> None:
        sharding.check_split(f"{self.path}/dense1/kernel", I=x_shape[-1], fully_connected_dim=self.fully_connected_dim)
        self.dense1.build((None, x_shape[-1]))
        self.dense2.build((None, self.fully_connected_dim))

    def call(self, x: Tensor) -> Tensor:
        rows = ops.reshape(x, (-1, x.shape[-1]))  # (B·T, I)
        rows = self.dense2(self.dense1(rows))
        return ops.reshape(rows, (*ops.shape(x)[:-1], self.embedding_dim))

    def compute_output_shape(self, x_shape: Any) -> tuple[Any, ...]:
        return (*x_shape[:-1], self.embedding_dim)

    def get_config(self) -> dict[str, Any]:
        activation = keras.activations.serialize(self.dense1.activation)
        return {**super().get_config(), **checks.config_of(self, FeedForward, activation=activation)}


class TransformerBlock(checks.CheckedLayer):
    """The base of `EncoderLayer` and `DecoderLayer`: sublayers, each with a residual connection and a normalization.

    Subclasses make their sublayers with `_make_attention`, `_make_feed_forward`, `_make_norm` and `_make_dropout`, in
    the order of the course.
    """

    _attention_names: tuple[str, ...] = ()

    def __init__(
        self,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        *,
        key_dim: int | None = None,
        norm: str = "post",
        activation: Any = "relu",
        residual_dropout_rate: float = 0.0,
        attention: dict[str, Any] | None = None,
        heads: dict[str, int] | None = None,
        **kwargs: Any,
    ) -> None:
        with checks.naming_unknown(TransformerBlock):
            super().__init__(**kwargs)
        layer = type(self).__name__
        self.supports_masking = True
        self.embedding_dim = checks.size(layer, "embedding_dim", embedding_dim, "D", "The paper has 512.")
        self.num_heads = checks.size(layer, "num_heads", num_heads, "H", "8 is common.")
        self.fully_connected_dim = _hidden_size(layer, fully_connected_dim)
        self.dropout_rate = checks.rate(layer, "dropout_rate", dropout_rate)
        self.layernorm_eps = layernorm_eps
        self.key_dim = _head_size(layer, embedding_dim, num_heads, key_dim)
        self.norm = checks.choice(layer, "norm", norm, ("post", "pre"))
        self.activation = activation
        self.residual_dropout_rate = checks.rate(layer, "residual_dropout_rate", residual_dropout_rate)
        self.attention = dict(attention or {})
        self._heads = checks.heads(layer, heads, self._attention_names)

    @property
    def heads(self) -> dict[str, int] | None:
        """Numbers of heads of the attention layers that `kmha.layers.prune_heads` has changed, by name, or `None`."""
        usual = self.attention.get("num_heads", self.num_heads)
        numbers = {name: getattr(getattr(self, name), "num_heads", usual) for name in self._attention_names}
        return {name: number for name, number in numbers.items() if number != usual} or None

    def get_config(self) -> dict[str, Any]:
        activation = keras.activations.serialize(self.ffn.dense1.activation)
        config = checks.config_of(self, TransformerBlock, activation=activation)
        if config["heads"] is None:  # versions of kmha and subclasses without the argument can read the config
            del config["heads"]
        return {**super().get_config(), **config}

    def compute_mask(self, x: Tensor, previous_mask: Tensor) -> Tensor:
        return masking.padding_or_none(previous_mask)

    def _make_attention(self, name: str) -> MultiHeadAttention:
        settings: dict[str, Any] = {"num_heads": self.num_heads, "key_dim": self.key_dim, "dropout": self.dropout_rate}
        settings |= self.attention | ({"num_heads": self._heads[name]} if name in self._heads else {})
        return MultiHeadAttention(**settings, name=name, dtype=self.dtype_policy)

    def _make_feed_forward(self) -> FeedForward:
        sizes = self.fully_connected_dim, self.embedding_dim
        return FeedForward(*sizes, self.activation, name="ffn", dtype=self.dtype_policy)

    def _make_norm(self, name: str) -> LayerNormalization:
        return LayerNormalization(epsilon=self.layernorm_eps, name=name, dtype=self.dtype_policy)

    def _make_dropout(self, name: str, rate: float) -> keras.layers.Dropout:
        return keras.layers.Dropout(rate, name=name, dtype=self.dtype_policy)

    def _residual(self, x: Tensor, sublayer: Any, norm: Any, dropout: Any, training: Any) -> tuple[Any, ...]:
        """Return LayerNorm(x + Sublayer(x)), or with pre-norm (arXiv 2002.04745) x + Sublayer(LayerNorm(x)).

        Args:
            x: Input (B, T, D).
            sublayer: Function of (B, T, D) that returns an output, or a tuple of an output and other results.
            norm: Layer normalization.
            dropout: Dropout of the sublayer's output.
            training: Apply the dropout.

        Returns:
            A tuple of the output (B, T, D) and the sublayer's other results.
        """
        pre = self.norm == "pre"
        outputs = sublayer(norm(x) if pre else x)
        output, *more = outputs if isinstance(outputs, tuple) else (outputs,)
        x = ops.add(x, dropout(output, training=training))
        return x if pre else norm(x), *more

    def _check_width(self, name: str, shape: Any) -> None:
        """Raise a ValueError unless the residual connection can add the sublayers' outputs to the input."""
        if shape[-1] != self.embedding_dim:
            raise ValueError(
                f"{self.name}: `{name}` must have {self.embedding_dim} features (D, `embedding_dim`), because the "
                f"residual connection adds it to outputs with as many. Received: {name}.shape={tuple(shape)}. Embed "
                "token ids first, or project it with a `Dense` layer."
            )


def _argument(name: str) -> property:
    return property(lambda self: self._arguments[name], doc=f"The argument `{name}`.")


class BlockStack(checks.CheckedLayer):
    """The base of `Encoder` and `Decoder`: embedding, positions, dropout, blocks, and for pre-norm a normalization."""

    _layer_class: Any
    _score_names: tuple[str, ...]  # names of the scores that a block returns, with {} for the block's number

    num_layers, num_heads, fully_connected_dim = map(_argument, ("num_layers", "num_heads", "fully_connected_dim"))
    maximum_position_encoding, dropout_rate = map(_argument, ("maximum_position_encoding", "dropout_rate"))
    layernorm_eps = _argument("layernorm_eps")

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        vocabulary: tuple[str, int],
        maximum_position_encoding: int,
        dropout_rate: float,
        layernorm_eps: float,
        pad_id: int | None,
        embeddings_initializer: Any,
        embedding: TokenEmbedding | None = None,
        heads: dict[str, int] | None = None,
        **kwargs: Any,
    ) -> None:
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        with checks.naming_unknown(type(self), *OPTIONS, "heads"):
            super().__init__(**kwargs)
        layer, (argument, size) = type(self).__name__, vocabulary
        num_layers = checks.size(layer, "num_layers", num_layers, "layers", "The paper has 6.")
        vocabulary_size = checks.size(layer, argument, size, "token ids", "Count padding too.")
        self.supports_masking = True
        self.embedding_dim = checks.size(layer, "embedding_dim", embedding_dim, "D", "The paper has 512.")
        self.pad_id = pad_id
        if isinstance(embeddings_initializer, keras.initializers.Initializer):
            embeddings_initializer = embeddings_initializer.clone()  # one instance would draw the same numbers twice
        self.embedding = embedding or TokenEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer, name="embedding", dtype=self.dtype_policy
        )
        self.pos_encoding = PositionalEncoding(maximum_position_encoding, name="pos_encoding", dtype=self.dtype_policy)
        sizes = embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps
        numbers = range(1, num_layers + 1)
        heads = checks.heads(layer, heads, [name for number in numbers for name in self._names(number)])
        options_of = [options | {"heads": self._block_heads(number, heads)} for number in numbers]
        self._blocks = [
            self._layer_class(*sizes, **own, name=f"layer{number}", dtype=self.dtype_policy)
            for number, own in zip(numbers, options_of, strict=True)
        ]
        self.dropout = keras.layers.Dropout(dropout_rate, name="dropout", dtype=self.dtype_policy)
        self._last_norm = self._blocks[0]._make_norm("layernorm") if self._blocks[0].norm == "pre" else None
        self._arguments = {
            "num_layers": num_layers,
            "embedding_dim": embedding_dim,
            "num_heads": num_heads,
            "fully_connected_dim": fully_connected_dim,
            argument: vocabulary_size,
            "maximum_position_encoding": maximum_position_encoding,
            "dropout_rate": dropout_rate,
            "layernorm_eps": layernorm_eps,
            "pad_id": pad_id,
            "embeddings_initializer": keras.initializers.serialize(self.embedding.embeddings_initializer),
            **options,
        }

    def build(self, x_shape: Any = None) -> None:
        """Make the weights, whose shapes do not depend on the input's shape."""
        self._build()

    def _build(self, *more: Any) -> None:
        """Make the weights. The blocks are built for an input (B, T, D) and further inputs of the shapes `more`."""
        features = None, None, self.embedding_dim
        if not self.embedding.built:  # a shared embedding may be built already
            self.embedding.build()
        self.pos_encoding.build(features)
        for layer in self._blocks:
            layer.build(features, *more)
        if self._last_norm is not None:
            self._last_norm.build(features)

    def _run(self, x: Tensor, training: Any, return_scores: bool, *more: Tensor, **options: Any) -> Any:
        """Return (B, T, D) for ids (B, T), and with `return_scores` also a dict of the scores.

        Each block is called with its input, `more` and `options`.
        """
        options |= {"training": training, "return_attention_scores": return_scores}
        x = self._embed(x, training)
        scores: dict[str, Tensor] = {}
        for number, layer in enumerate(self._blocks, 1):
            outputs = layer(x, *more, **options)
            if return_scores:
                outputs, *found = outputs
                scores.update(zip(self._names(number), found, strict=True))
            x = outputs
        x = self._finish(x)
        return (x, scores) if return_scores else x

    def _spec(self, ids: Any, lengths: list[Any], return_scores: bool) -> Any:
        """Return the symbolic outputs of `_run`. A block returns scores (B, H, T, S) for each S in `lengths`.

        Without this method, Keras would call the layer with lengths that may exceed the number of positions.
        """
        checks.check_ids(self.name, ids)
        batch, length = ids.shape
        output = keras.KerasTensor((batch, length, self.embedding_dim), dtype=self.compute_dtype)
        if not return_scores:
            return output
        scores = {}
        for (name, mha), keys in zip(self.attentions().items(), lengths * len(self._blocks), strict=True):
            shape = batch, getattr(mha, "num_heads", self.num_heads), length, keys
            scores[name] = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return output, scores

    def attentions(self) -> dict[str, MultiHeadAttention]:
        """Return the attention layers, by the names of their scores."""
        return {
            name: getattr(block, own)
            for number, block in enumerate(self._blocks, 1)
            for name, own in zip(self._names(number), block._attention_names, strict=True)
        }

    @property
    def heads(self) -> dict[str, int] | None:
        """Numbers of heads of the attention layers that `kmha.layers.prune_heads` has changed, by name, or `None`."""
        changed = {id(getattr(block, name)) for block in self._blocks for name in block.heads or ()}
        return {name: mha.num_heads for name, mha in self.attentions().items() if id(mha) in changed} or None

    def _block_heads(self, number: int, heads: dict[str, int]) -> dict[str, int]:
        """Return the given numbers of heads of a block, by the names of its attention layers."""
        names = zip(self._layer_class._attention_names, self._names(number), strict=True)
        return {own: heads[name] for own, name in names if name in heads}

    def _names(self, number: int) -> list[str]:
        """Return the names of the scores of the block `number`, counted from 1."""
        return [name.format(number) for name in self._score_names]

    def compute_mask(self, x: Tensor, previous_mask: Tensor) -> Tensor:
        return masking.padding_or_none(previous_mask)

    def padding(self, ids: Tensor) -> Tensor:
        """Return a mask (B, 1, S), False at padding. If no id means padding, return `None`."""
        return None if self.pad_id is None else masks.padding(ids, self.pad_id)

    def get_config(self) -> dict[str, Any]:
        heads = {} if self.heads is None else {"heads": self.heads}
        return {**super().get_config(), **self._arguments, **heads}

    def _embed(self, ids: Tensor, training: Any, start: Any = 0) -> Tensor:
        checks.check_ids(self.name, ids)
        return self.dropout(self.pos_encoding(self.embedding(ids), start=start), training=training)

    def _finish(self, x: Tensor) -> Tensor:
        return x if self._last_norm is None else self._last_norm(x)


def _hidden_size(layer: str, value: Any) -> int:
    """Return the number of features between the two dense layers."""
    fix = "4 times the width is common."
    return checks.size(layer, "fully_connected_dim", value, "hidden features", fix)


def _head_size(layer: str, embedding_dim: int, num_heads: int, key_dim: int | None) -> int:
    """Return the head size (O), which is `key_dim` if given, and otherwise D / H, and at least 1."""
    if key_dim is not None:
        return checks.size(layer, "key_dim", key_dim, "O", "None means embedding_dim // num_heads.")
    return max(1, embedding_dim // num_heads)  # a course has more heads than features in a test
