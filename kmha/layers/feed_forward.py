"""`FeedForward`: two dense layers, the same ones at every position."""

from typing import Any

import keras
from keras import ops

from kmha.layers import arguments


@keras.saving.register_keras_serializable("kmha")
class FeedForward(keras.layers.Layer):
    """max(0, x W₁ + b₁) W₂ + b₂ at every position (Vaswani et al. 2017, section 3.3).

    The two are `keras.layers.Dense`. They get (B, T) folded into one axis: otherwise TensorFlow would compute each
    kernel's gradient as B separate products and add them up.

    Args:
        fully_connected_dim: the features in between.
        embedding_dim: the features of the output.
        activation: of what is in between.
        **kwargs: those of `keras.layers.Layer`.

    Call arguments:
        x: (B, T, I), or with other axes in front of I.

    Returns:
        (B, T, embedding_dim), of the compute dtype.

    >>> layer = FeedForward(fully_connected_dim=7, embedding_dim=5)
    >>> tuple(layer(keras.ops.ones((2, 3, 5))).shape)
    (2, 3, 5)
    """

    def __init__(self, fully_connected_dim: int, embedding_dim: int, activation: Any = "relu", **kwargs: Any) -> None:
        with arguments.naming_unknown(FeedForward):
            super().__init__(**kwargs)
        layer = type(self).__name__
        self.supports_masking = True
        self.fully_connected_dim = arguments.size(
            layer, "fully_connected_dim", fully_connected_dim, "features in between", "4 times the width is usual."
        )
        self.embedding_dim = arguments.size(layer, "embedding_dim", embedding_dim, "features", "512 in the paper.")
        self.dense1 = keras.layers.Dense(fully_connected_dim, activation, dtype=self.dtype_policy, name="dense1")
        self.dense2 = keras.layers.Dense(embedding_dim, dtype=self.dtype_policy, name="dense2")

    def build(self, x_shape: Any) -> None:
        self.dense1.build((None, x_shape[-1]))
        self.dense2.build((None, self.fully_connected_dim))

    def call(self, x: Any) -> Any:
        rows = ops.reshape(x, (-1, x.shape[-1]))  # (B·T, I)
        rows = self.dense2(self.dense1(rows))
        return ops.reshape(rows, (*ops.shape(x)[:-1], self.embedding_dim))

    def compute_output_shape(self, x_shape: Any) -> tuple[Any, ...]:
        return (*x_shape[:-1], self.embedding_dim)

    def get_config(self) -> dict[str, Any]:
        config = {
            "fully_connected_dim": self.fully_connected_dim,
            "embedding_dim": self.embedding_dim,
            "activation": keras.activations.serialize(self.dense1.activation),
        }
        return {**super().get_config(), **config}
