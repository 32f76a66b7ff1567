"""What encoder and decoder layers share: their settings, their sublayers, and the residual connections around those."""

from typing import Any

import keras
from keras import ops

from kmha.layers import arguments, calls
from kmha.layers.feed_forward import FeedForward
from kmha.layers.multi_head_attention import MultiHeadAttention
from kmha.layers.normalization import LayerNormalization

# The settings that encoder and decoder hand on to each of their layers.
OPTIONS = ("key_dim", "norm", "activation", "residual_dropout_rate", "attention")


class Block(calls.TeachingLayer):
    """An encoder or decoder layer: attentions and a feed-forward network, each with a residual and a normalization.

    Subclasses make their sublayers with `_make_attention`, `_make_feed_forward`, `_make_norm` and `_make_dropout`, in
    the order of the course.
    """

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
        **kwargs: Any,
    ) -> None:
        with arguments.naming_unknown(Block):
            super().__init__(**kwargs)
        layer = type(self).__name__
        self.supports_masking = True
        self.embedding_dim = arguments.size(layer, "embedding_dim", embedding_dim, "D", "512 in the paper.")
        self.num_heads = arguments.size(layer, "num_heads", num_heads, "H", "8 is usual.")
        self.fully_connected_dim = arguments.size(
            layer, "fully_connected_dim", fully_connected_dim, "features in between", "4 times the width is usual."
        )
        self.dropout_rate = arguments.rate(layer, "dropout_rate", dropout_rate)
        self.layernorm_eps = layernorm_eps
        self.key_dim = head_size(layer, embedding_dim, num_heads, key_dim)
        self.norm = arguments.choice(layer, "norm", norm, ("post", "pre"))
        self.activation = activation
        self.residual_dropout_rate = arguments.rate(layer, "residual_dropout_rate", residual_dropout_rate)
        self.attention = dict(attention or {})

    def get_config(self) -> dict[str, Any]:
        config = {
            "embedding_dim": self.embedding_dim,
            "num_heads": self.num_heads,
            "fully_connected_dim": self.fully_connected_dim,
            "dropout_rate": self.dropout_rate,
            "layernorm_eps": self.layernorm_eps,
            "key_dim": self.key_dim,
            "norm": self.norm,
            "activation": keras.activations.serialize(self.ffn.dense1.activation),
            "residual_dropout_rate": self.residual_dropout_rate,
            "attention": self.attention,
        }
        return {**super().get_config(), **config}

    def compute_mask(self, x: Any, previous_mask: Any) -> Any:
        return carried(previous_mask)

    def _make_attention(self, name: str) -> MultiHeadAttention:
        settings = {"num_heads": self.num_heads, "key_dim": self.key_dim, "dropout": self.dropout_rate}
        return MultiHeadAttention(**{**settings, **self.attention}, name=name, dtype=self.dtype_policy)

    def _make_feed_forward(self) -> FeedForward:
        sizes = self.fully_connected_dim, self.embedding_dim
        return FeedForward(*sizes, self.activation, name="ffn", dtype=self.dtype_policy)

    def _make_norm(self, name: str) -> LayerNormalization:
        return LayerNormalization(epsilon=self.layernorm_eps, name=name, dtype=self.dtype_policy)

    def _make_dropout(self, name: str, rate: float) -> keras.layers.Dropout:
        return keras.layers.Dropout(rate, name=name, dtype=self.dtype_policy)

    def _residual(self, x: Any, sublayer: Any, norm: Any, dropout: Any, training: Any) -> tuple[Any, ...]:
        """LayerNorm(x + Sublayer(x)), or with pre-norm (arXiv 2002.04745) x + Sublayer(LayerNorm(x)).

        Args:
            x: (B, T, D).
            sublayer: gives the output for its input, or a tuple of that and more.
            norm: the normalization.
            dropout: of the output.
            training: whether anything is dropped.

        Returns:
            ((B, T, D), *what the sublayer gave besides).
        """
        pre = self.norm == "pre"
        outputs = sublayer(norm(x) if pre else x)
        output, *more = outputs if isinstance(outputs, tuple) else (outputs,)
        x = ops.add(x, dropout(output, training=training))
        return x if pre else norm(x), *more

    def _check_width(self, name: str, shape: Any) -> None:
        """Raises a ValueError unless the residual connection can add what the sublayers give."""
        if shape[-1] != self.embedding_dim:
            raise ValueError(
                f"{self.name}: `{name}` must have {self.embedding_dim} features (D, `embedding_dim`), because the "
                f"residual connection adds it to what has as many. Received: {name}.shape={tuple(shape)}. Embed token "
                "ids first, or project it with a `Dense` layer."
            )


def head_size(layer: str, embedding_dim: int, num_heads: int, key_dim: int | None) -> int:
    """O, which is D / H unless it is given."""
    if key_dim is not None:
        return arguments.size(layer, "key_dim", key_dim, "O", "None means embedding_dim // num_heads.")
    if num_heads > embedding_dim:
        fix = "Take fewer heads, or give their size with `key_dim`."
        raise arguments.invalid(layer, "num_heads", f"at most embedding_dim={embedding_dim}", num_heads, fix)
    return embedding_dim // num_heads


def as_attention_mask(layer: str, name: str, mask: Any, x: Any) -> Any:
    """A mask for `attention_mask=`: one of two axes is padding (B, S), as Keras carries it, and gets the axis T.

    Raises:
        ValueError: it has two axes, and the first is not the batch of `x`.
    """
    if carried(mask) is None:
        return mask
    if mask.shape[0] is not None and x.shape[0] is not None and mask.shape[0] not in (1, x.shape[0]):
        raise ValueError(
            f"{layer}: a `{name}` of two axes is padding, (B, S), with B={x.shape[0]}. Received: shape "
            f"{tuple(mask.shape)}. A mask (T, S) for all sequences needs a batch axis: pass mask[None]."
        )
    return ops.expand_dims(mask, 1)


def carried(mask: Any) -> Any:
    """`mask` if it is one of padding (B, S), which tensors carry on; Keras takes any argument `mask` for such a one."""
    return mask if mask is not None and len(mask.shape) == 2 else None
