"""`EncoderLayer` and `Encoder`, as in Vaswani et al. 2017, section 3.1, and with the names of the course."""

from typing import Any

import keras

from kmha.layers.block import Block, as_attention_mask
from kmha.layers.stack import Stack


@keras.saving.register_keras_serializable("kmha")
class EncoderLayer(Block):
    """Self-attention, then a feed-forward network, each with a residual connection and a layer normalization.

    x = norm(x + attention(x, x, x)), then norm(x + ffn(x)); with `norm="pre"` x + attention(norm(x)), and so on.

    Args:
        embedding_dim: D, the features of input and output.
        num_heads: H.
        fully_connected_dim: the features in between in the feed-forward network.
        dropout_rate: of the scores, and of what the feed-forward network gives.
        layernorm_eps: of the normalizations.
        key_dim: O, the size of a head; `None` means `embedding_dim // num_heads`, as in the paper. The course passes
            `key_dim=embedding_dim`, which makes every head as wide as the model and the attention H times as large.
        norm: "post" normalizes after the residual connection, as the paper and the course do, "pre" before attention
            and feed-forward.
        activation: of the feed-forward network.
        residual_dropout_rate: of what attention gives, before it is added; the paper has it (section 5.4), the course
            does not.
        attention: further arguments of `kmha.MultiHeadAttention`, such as {"use_bias": False, "sliding_window": 64}.
        **kwargs: those of `keras.layers.Layer`.

    Call arguments:
        x: (B, S, D).
        training: whether anything is dropped.
        mask: True (or 1) means attend; padding (B, S) or (B, 1, S), or what broadcasts to (B, S, S) or (B, H, S, S) and
            has three or four axes: two always mean padding.
        return_attention_scores: whether the scores are returned too.

    Returns:
        (B, S, D), and with `return_attention_scores` the scores (B, H, S, S), of the compute dtype.

    Raises:
        ValueError: an argument or a shape does not fit; the message says how to mend it.

    >>> import keras
    >>> layer = EncoderLayer(embedding_dim=6, num_heads=3, fully_connected_dim=7)
    >>> tuple(layer(keras.ops.ones((2, 5, 6)), mask=keras.ops.ones((2, 1, 5))).shape)
    (2, 5, 6)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mha = self._make_attention("mha")
        self.ffn = self._make_feed_forward()
        self.layernorm1 = self._make_norm("layernorm1")
        self.layernorm2 = self._make_norm("layernorm2")
        self.dropout_mha = self._make_dropout("dropout_mha", self.residual_dropout_rate)
        self.dropout_ffn = self._make_dropout("dropout_ffn", self.dropout_rate)

    def build(self, x_shape: Any) -> None:
        self._check_width("x", x_shape)
        self.mha.build(x_shape, x_shape)
        for layer in (self.ffn, self.layernorm1, self.layernorm2):
            layer.build(x_shape)

    def call(self, x: Any, training: Any = None, mask: Any = None, return_attention_scores: bool = False) -> Any:
        mask = as_attention_mask(self.name, "mask", mask, x)
        options = {"training": training, "return_attention_scores": return_attention_scores}

        def attend(query: Any) -> Any:
            return self.mha(query, query, attention_mask=mask, **options)

        x, *scores = self._residual(x, attend, self.layernorm1, self.dropout_mha, training)
        (x,) = self._residual(x, self.ffn, self.layernorm2, self.dropout_ffn, training)
        return (x, *scores) if return_attention_scores else x


@keras.saving.register_keras_serializable("kmha")
class Encoder(Stack):
    """Embeds token ids, adds positions, and runs `num_layers` encoder layers.

    Args:
        num_layers: N.
        embedding_dim: D.
        num_heads: H.
        fully_connected_dim: the features in between in the feed-forward networks.
        input_vocab_size: how many token ids there are.
        maximum_position_encoding: how many positions there may be.
        dropout_rate: of the embeddings, the scores, and what the feed-forward networks give.
        layernorm_eps: of the normalizations.
        pad_id: the token id that nothing attends to where no `mask` is given; `None`: there is none, as in the course.
        embeddings_initializer: of the embedding.
        **kwargs: `key_dim`, `norm`, `activation`, `residual_dropout_rate` and `attention`, as in `EncoderLayer`; those
            of `keras.layers.Layer`.

    Call arguments:
        x: token ids (B, S), integer.
        training: whether anything is dropped.
        mask: as in `EncoderLayer`; `None` means that it is derived from the ids.
        return_attention_scores: whether the scores are returned too.

    Returns:
        (B, S, D), and with `return_attention_scores` a dict of the scores (B, H, S, S) by name,
        `encoder_layer{i}_self_att`, i from 1.

    >>> import keras
    >>> encoder = Encoder(2, 6, 3, 7, input_vocab_size=11, maximum_position_encoding=13)
    >>> output, scores = encoder(keras.ops.array([[4, 5, 6, 0, 0]]), return_attention_scores=True)
    >>> tuple(output.shape), sorted(scores), tuple(scores["encoder_layer1_self_att"].shape[1:])
    ((1, 5, 6), ['encoder_layer1_self_att', 'encoder_layer2_self_att'], (3, 5, 5))
    """

    _layer_class = EncoderLayer
    _score_names = ("encoder_layer{}_self_att",)
    enc_layers = property(lambda self: self._blocks)

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        input_vocab_size: int,
        maximum_position_encoding: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        *,
        pad_id: int | None = 0,
        embeddings_initializer: Any = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_layers,
            embedding_dim,
            num_heads,
            fully_connected_dim,
            ("input_vocab_size", input_vocab_size),
            maximum_position_encoding,
            dropout_rate,
            layernorm_eps,
            pad_id,
            embeddings_initializer,
            **kwargs,
        )

    def compute_output_spec(self, x: Any, return_attention_scores: bool = False, **_: Any) -> Any:
        return self._spec(x, [x.shape[1]], return_attention_scores)

    def call(self, x: Any, training: Any = None, mask: Any = None, return_attention_scores: bool = False) -> Any:
        mask = self.padding(x) if mask is None else mask
        return self._run(x, training, return_attention_scores, mask=mask)
