"""`EncoderLayer` and `Encoder` (Vaswani et al. 2017, section 3.1), with the names of the course."""

from typing import Any

import keras

from kmha.core.tensors import Tensor
from kmha.layers import masking
from kmha.layers.transformer_blocks import BlockStack, TransformerBlock


@keras.saving.register_keras_serializable("kmha")
class EncoderLayer(TransformerBlock):
    """Self-attention, then a feed-forward network, each with a residual connection and a layer normalization.

    It computes x = norm(x + attention(x, x, x)), then norm(x + ffn(x)). With `norm="pre"`, x + attention(norm(x)), etc.

    Args:
        embedding_dim: Features of input and output (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Hidden features of the feed-forward network.
        dropout_rate: Dropout rate of the scores and of the feed-forward network's output.
        layernorm_eps: Epsilon of the layer normalizations.
        key_dim: Head size (O). `None` means `embedding_dim // num_heads`, as in the paper, and at least 1. The course
            passes `key_dim=embedding_dim`, which makes every head as wide as the model, and the layer H times as large.
        norm: "post" normalizes after the residual connection, like the paper and the course. "pre" normalizes the
            inputs of the attention and of the feed-forward network.
        activation: Activation between the two dense layers of the feed-forward network.
        residual_dropout_rate: Dropout rate of the attention's output, before the residual connection. The paper has
            this dropout (section 5.4), but the course does not.
        attention: Further arguments of `kmha.MultiHeadAttention`, such as {"use_bias": False, "sliding_window": 64}.
        heads: Number of heads of the attention, {"mha": 2}, if `kmha.layers.prune_heads` has removed some.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: Input (B, S, D).
        training: Apply dropout.
        mask: Mask in which True (or 1) means attend. It is either a padding mask (B, S) or (B, 1, S), or a mask with
            three or four axes that broadcasts to (B, S, S) or (B, H, S, S). Two axes always mean padding.
        return_attention_scores: Also return the scores.

    Returns:
        The output (B, S, D), and with `return_attention_scores` also the scores (B, H, S, S), of the compute dtype.

    Raises:
        ValueError: If an argument or a shape is invalid.

    Example:

    >>> import keras
    >>> layer = EncoderLayer(embedding_dim=6, num_heads=3, fully_connected_dim=7)
    >>> tuple(layer(keras.ops.ones((2, 5, 6)), mask=keras.ops.ones((2, 1, 5))).shape)
    (2, 5, 6)
    """

    _attention_names = ("mha",)

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

    def call(self, x: Tensor, training: Any = None, mask: Tensor = None, return_attention_scores: bool = False) -> Any:
        mask = masking.with_query_axis(self.name, "mask", mask, x)
        options = {"training": training, "return_attention_scores": return_attention_scores}

        def attend(query: Tensor) -> Any:
            return self.mha(query, query, attention_mask=mask, **options)

        x, *scores = self._residual(x, attend, self.layernorm1, self.dropout_mha, training)
        (x,) = self._residual(x, self.ffn, self.layernorm2, self.dropout_ffn, training)
        return (x, *scores) if return_attention_scores else x


@keras.saving.register_keras_serializable("kmha")
class Encoder(BlockStack):
    """Embeds token ids, adds positions, and runs `num_layers` encoder layers.

    Args:
        num_layers: Number of encoder layers (N).
        embedding_dim: Features of embedding and output (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Hidden features of the feed-forward networks.
        input_vocab_size: Number of token ids.
        maximum_position_encoding: Maximum number of positions.
        dropout_rate: Dropout rate of the embeddings, the scores and the feed-forward networks' outputs.
        layernorm_eps: Epsilon of the layer normalizations.
        pad_id: Token id of padding, which nothing attends to if no `mask` is given. `None` means no such id, as in the
            course.
        embeddings_initializer: Initializer of the embedding.
        **kwargs: `key_dim`, `norm`, `activation`, `residual_dropout_rate` and `attention`, as in `EncoderLayer`,
            `heads`, as in `Transformer`, and arguments of `keras.layers.Layer`.

    Call arguments:
        x: Token ids (B, S), integers.
        training: Apply dropout.
        mask: As in `EncoderLayer`. `None` means that the layer derives the mask from the ids.
        return_attention_scores: Also return the scores.

    Returns:
        The output (B, S, D), and with `return_attention_scores` also a dict of scores (B, H, S, S) with the keys
        `encoder_layer{i}_self_att`, i from 1.

    Example:

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
        sizes, rates = (num_layers, embedding_dim, num_heads, fully_connected_dim), (dropout_rate, layernorm_eps)
        table = ("input_vocab_size", input_vocab_size), maximum_position_encoding
        super().__init__(*sizes, *table, *rates, pad_id, embeddings_initializer, **kwargs)

    def compute_output_spec(self, x: Tensor, return_attention_scores: bool = False, **_: Any) -> Any:
        return self._spec(x, [x.shape[1]], return_attention_scores)

    def call(self, x: Tensor, training: Any = None, mask: Tensor = None, return_attention_scores: bool = False) -> Any:
        mask = self.padding(x) if mask is None else mask
        return self._run(x, training, return_attention_scores, mask=mask)
