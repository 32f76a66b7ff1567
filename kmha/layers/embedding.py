"""Layers that turn token ids and positions into vectors, and vectors into logits."""

import math
from typing import Any

import keras
from keras import ops

from kmha.core import positions
from kmha.core.tensors import Tensor
from kmha.layers import checks


@keras.saving.register_keras_serializable("kmha")
class TokenEmbedding(keras.layers.Embedding):
    """`keras.layers.Embedding` times √d, so that positions added later do not dominate (Vaswani et al. 2017, 3.4).

    Args:
        input_dim: Size of the vocabulary (V).
        output_dim: Number of features (d).
        **kwargs: Arguments of `keras.layers.Embedding`.

    Call arguments:
        inputs: Token ids (B, T), integers from 0 to V - 1.

    Returns:
        Vectors (B, T, d), of the compute dtype.

    >>> layer = TokenEmbedding(11, 4, embeddings_initializer="ones")
    >>> float(layer(keras.ops.array([[3, 7]]))[0, 1, 2])
    2.0
    """

    def call(self, inputs: Tensor) -> Tensor:
        return ops.multiply(super().call(inputs), math.sqrt(self.output_dim))


@keras.saving.register_keras_serializable("kmha")
class PositionalEncoding(keras.layers.Layer):
    """Adds the sines and cosines of `kmha.core.positions` to an embedding (Vaswani et al. 2017, section 3.5).

    Args:
        max_length: Maximum number of positions.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: Embeddings (B, T, d).
        start: Position of the first token, an integer or a scalar tensor.

    Returns:
        Vectors (B, T, d), of the compute dtype.

    Raises:
        ValueError: If T exceeds `max_length`.

    >>> encoded = PositionalEncoding(max_length=5)(keras.ops.zeros((1, 3, 4)))
    >>> print(keras.ops.convert_to_numpy(encoded[0, 1]).round(3))
    [0.841 0.54  0.01  1.   ]
    """

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        with checks.naming_unknown(PositionalEncoding):
            super().__init__(**kwargs)
        self.supports_masking = True
        self.max_length = checks.size(type(self).__name__, "max_length", max_length, "positions", "512 is common.")

    def build(self, x_shape: Any) -> None:
        self.encoding = positions.sinusoidal(self.max_length, x_shape[-1])

    def call(self, x: Tensor, start: Any = 0) -> Tensor:
        length = ops.shape(x)[1]
        if isinstance(length, int) and length > self.max_length:
            raise ValueError(
                f"{self.name}: there are positions for sequences of at most {self.max_length} tokens. Received: "
                f"x.shape={tuple(x.shape)}, {length} positions (T). Truncate the sequences, or make the layer with a "
                "larger `max_length` (in the layers around it, `maximum_position_encoding`, "
                "`max_positional_encoding_input` or `…_target`). Positions have no weights, so trained weights still "
                "load."
            )
        encoding = ops.cast(self.encoding, x.dtype)
        return ops.add(x, ops.take(encoding, ops.add(start, ops.arange(length)), axis=0))

    def compute_output_shape(self, x_shape: Any) -> Any:
        return x_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}


@keras.saving.register_keras_serializable("kmha")
class TiedLogits(keras.layers.Layer):
    """Computes logits from the embedding's own matrix and a bias (Press & Wolf 2017; Vaswani et al. 2017, section 3.4).

    Args:
        embedding: The `keras.layers.Embedding` that has the matrix (V, d).
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        features: Vectors (N, d).

    Returns:
        Logits (N, V), of the compute dtype.

    >>> tied = TiedLogits(TokenEmbedding(11, 4))
    >>> tuple(tied(keras.ops.ones((3, 4))).shape), len(tied.weights)
    ((3, 11), 2)
    """

    def __init__(self, embedding: keras.layers.Embedding, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding

    def build(self, features_shape: Any = None) -> None:
        if not self.embedding.built:
            self.embedding.build()
        self.bias = self.add_weight(name="bias", shape=(self.embedding.input_dim,), initializer="zeros")

    def call(self, features: Tensor) -> Tensor:
        matrix = ops.cast(self.embedding.embeddings, features.dtype)
        return ops.add(ops.matmul(features, ops.transpose(matrix)), self.bias)

    def compute_output_shape(self, features_shape: Any) -> tuple[Any, ...]:
        return (*features_shape[:-1], self.embedding.input_dim)

    def get_config(self) -> dict[str, Any]:
        embedding = keras.saving.serialize_keras_object(self.embedding)
        return {**super().get_config(), "embedding": embedding}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        embedding = keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**{**config, "embedding": embedding})
