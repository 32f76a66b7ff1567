"""`DecoderLayer` and `Decoder` (Vaswani et al. 2017, section 3.1), with the names of the course."""

from typing import Any

import keras

from kmha.core.tensors import Tensor
from kmha.layers import masking
from kmha.layers.embedding import TokenEmbedding
from kmha.layers.transformer_blocks import BlockStack, TransformerBlock


@keras.saving.register_keras_serializable("kmha")
class DecoderLayer(TransformerBlock):
    """Causal self-attention, attention to the encoder's output, and a feed-forward network.

    1. Block 1 is self-attention over the target. A position does not see later positions.
    2. Block 2 takes its query from block 1, and `key = value = enc_output`. Here `key` and `value` are the *inputs* of
       the projections: the layer multiplies `enc_output` by its own key and value kernels. So K = `enc_output` W_K and
       V = `enc_output` W_V are different tensors. They belong to this layer, not to the encoder.
    3. The feed-forward network.

    Each of the three has a residual connection and a layer normalization.

    Args:
        embedding_dim: Features of input and output (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Hidden features of the feed-forward network.
        dropout_rate: See `EncoderLayer`, as for all other arguments. The names in `heads` are mha1 and mha2.

    Call arguments:
        x: Target (B, T, D).
        enc_output: Output of the encoder (B, S, I).
        training: Apply dropout.
        look_ahead_mask: Mask of block 1, which broadcasts to (B, T, T) or (B, H, T, T). True (or 1) means attend.
        padding_mask: Mask of block 2, made from the source. It is either a padding mask (B, S) or (B, 1, S), or a mask
            with three or four axes that broadcasts to (B, T, S) or (B, H, T, S). Two axes always mean padding.
        return_attention_scores: Also return the scores. If they are not returned, the output is the same, and memory
            grows more slowly with T and S.
        use_causal_mask: Hide later positions in block 1, in addition to what `look_ahead_mask` hides. `None` means
            `True` if there is no `look_ahead_mask`, and otherwise `False`.

    Returns:
        The output (B, T, D), attn_weights_block1 (B, H, T, T) and attn_weights_block2 (B, H, T, S), of the compute
        dtype. Without `return_attention_scores`, only the output.

    Raises:
        ValueError: If an argument or a shape is invalid.

    Example:

    >>> import keras
    >>> layer = DecoderLayer(embedding_dim=6, num_heads=3, fully_connected_dim=7)
    >>> x, enc_output = keras.ops.ones((2, 4, 6)), keras.ops.ones((2, 5, 8))
    >>> [tuple(y.shape) for y in layer(x, enc_output)]
    [(2, 4, 6), (2, 3, 4, 4), (2, 3, 4, 5)]
    >>> tuple(layer.mha2.key_dense.kernel.shape)  # (H, I, O): K = enc_output times this
    (3, 8, 2)
    """

    _attention_names = ("mha1", "mha2")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mha1 = self._make_attention("mha1")
        self.mha2 = self._make_attention("mha2")
        self.ffn = self._make_feed_forward()
        self.layernorm1 = self._make_norm("layernorm1")
        self.layernorm2 = self._make_norm("layernorm2")
        self.layernorm3 = self._make_norm("layernorm3")
        self.dropout_mha1 = self._make_dropout("dropout_mha1", self.residual_dropout_rate)
        self.dropout_mha2 = self._make_dropout("dropout_mha2", self.residual_dropout_rate)
        self.dropout_ffn = self._make_dropout("dropout_ffn", self.dropout_rate)

    def build(self, x_shape: Any, enc_output_shape: Any = None) -> None:
        self._check_width("x", x_shape)
        self.mha1.build(x_shape, x_shape)
        self.mha2.build(x_shape, x_shape if enc_output_shape is None else enc_output_shape)
        for layer in (self.ffn, self.layernorm1, self.layernorm2, self.layernorm3):
            layer.build(x_shape)

    def call(
        self,
        x: Tensor,
        enc_output: Tensor,
        training: Any = None,
        look_ahead_mask: Tensor = None,
        padding_mask: Tensor = None,
        return_attention_scores: bool = True,
        use_causal_mask: bool | None = None,
    ) -> Any:
        causal = look_ahead_mask is None if use_causal_mask is None else use_causal_mask
        padding_mask = masking.with_query_axis(self.name, "padding_mask", padding_mask, x)
        options = {"training": training, "return_attention_scores": return_attention_scores}

        def block1(query: Tensor) -> Any:
            return self.mha1(query, query, attention_mask=look_ahead_mask, use_causal_mask=causal, **options)

        def block2(query: Tensor) -> Any:
            return self.mha2(query, key=enc_output, value=enc_output, attention_mask=padding_mask, **options)

        outputs = self._through(x, block1, block2, training)
        return outputs if return_attention_scores else outputs[0]

    def _through(self, x: Tensor, block1: Any, block2: Any, training: Any) -> tuple[Any, ...]:
        """Return the output of the three sublayers for `x`, then what the two blocks return besides their outputs."""
        x, *more1 = self._residual(x, block1, self.layernorm1, self.dropout_mha1, training)
        x, *more2 = self._residual(x, block2, self.layernorm2, self.dropout_mha2, training)
        (x,) = self._residual(x, self.ffn, self.layernorm3, self.dropout_ffn, training)
        return x, *more1, *more2


@keras.saving.register_keras_serializable("kmha")
class Decoder(BlockStack):
    """Embeds token ids, adds positions, and runs `num_layers` decoder layers.

    Args:
        num_layers: Number of decoder layers (N).
        embedding_dim: Features of embedding and output (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Hidden features of the feed-forward networks.
        target_vocab_size: Number of token ids.
        maximum_position_encoding: Maximum number of positions.
        pad_id: Token id of padding, which nothing attends to if no `look_ahead_mask` is given. `None` means no such id.
        embedding: A `TokenEmbedding` to share, instead of a new one. For all other arguments, see `Encoder`.

    Call arguments:
        x: Token ids (B, T), integers.
        enc_output: Output of the encoder (B, S, D).
        training: Apply dropout.
        look_ahead_mask: As in `DecoderLayer`. `None` hides later positions and the padding in the ids.
        padding_mask: As in `DecoderLayer`. `None` hides nothing, because the decoder does not see the source ids.
        return_attention_scores: Also return the scores.

    Returns:
        The output (B, T, D), and a dict of scores with the keys `decoder_layer{i}_block1_self_att` (B, H, T, T) and
        `decoder_layer{i}_block2_decenc_att` (B, H, T, S), i from 1. Without `return_attention_scores`, only the output.

    Example:

    >>> import keras
    >>> decoder = Decoder(1, 6, 3, 7, target_vocab_size=11, maximum_position_encoding=13)
    >>> output, scores = decoder(keras.ops.array([[1, 5, 6, 0]]), keras.ops.ones((1, 5, 6)))
    >>> tuple(output.shape), {name: tuple(x.shape) for name, x in scores.items()}
    ((1, 4, 6), {'decoder_layer1_block1_self_att': (1, 3, 4, 4), 'decoder_layer1_block2_decenc_att': (1, 3, 4, 5)})
    """

    _layer_class = DecoderLayer
    _score_names = ("decoder_layer{}_block1_self_att", "decoder_layer{}_block2_decenc_att")
    dec_layers = property(lambda self: self._blocks)

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        target_vocab_size: int,
        maximum_position_encoding: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        *,
        pad_id: int | None = 0,
        embeddings_initializer: Any = "uniform",
        embedding: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        sizes, rates = (num_layers, embedding_dim, num_heads, fully_connected_dim), (dropout_rate, layernorm_eps)
        table = ("target_vocab_size", target_vocab_size), maximum_position_encoding
        super().__init__(*sizes, *table, *rates, pad_id, embeddings_initializer, embedding, **kwargs)

    def build(self, x_shape: Any = None, enc_output_shape: Any = None) -> None:
        """Make the weights. Of `enc_output`, only the width matters. Without a shape, it is D."""
        self._build(*(() if enc_output_shape is None else ((None, None, enc_output_shape[-1]),)))

    def compute_output_spec(self, x: Tensor, enc_output: Tensor, return_attention_scores: bool = True, **_: Any) -> Any:
        return self._spec(x, [x.shape[1], enc_output.shape[1]], return_attention_scores)

    def call(
        self,
        x: Tensor,
        enc_output: Tensor,
        training: Any = None,
        look_ahead_mask: Tensor = None,
        padding_mask: Tensor = None,
        return_attention_scores: bool = True,
    ) -> Any:
        causal = look_ahead_mask is None
        options = {"look_ahead_mask": self.padding(x) if causal else look_ahead_mask, "padding_mask": padding_mask}
        return self._run(x, training, return_attention_scores, enc_output, use_causal_mask=causal, **options)
