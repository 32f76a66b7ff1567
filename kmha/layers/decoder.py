"""`DecoderLayer` and `Decoder`, as in Vaswani et al. 2017, section 3.1, and with the names of the course."""

from typing import Any

import keras

from kmha.layers.block import Block, as_attention_mask
from kmha.layers.embedding import TokenEmbedding
from kmha.layers.stack import Stack


@keras.saving.register_keras_serializable("kmha")
class DecoderLayer(Block):
    """Causal self-attention, attention to the encoder's output, and a feed-forward network.

    1. Block 1 is self-attention over the target, and sees no future position.
    2. Block 2 takes its query from block 1, and `key = value = enc_output`. That names the *inputs* of the projections:
       the layer multiplies `enc_output` by its own key and value kernels, so K = `enc_output` W_K and V = `enc_output`
       W_V are different tensors, and belong to this layer and not to the encoder.
    3. The feed-forward network.

    Each has a residual connection and a layer normalization.

    Args:
        embedding_dim: D, the features of input and output.
        num_heads: H.
        fully_connected_dim: the features in between in the feed-forward network.
        dropout_rate: of the scores, and of what the feed-forward network gives.
        layernorm_eps: of the normalizations.
        key_dim: as in `EncoderLayer`, like `norm`, `activation`, `residual_dropout_rate` and `attention`.
        **kwargs: those of `keras.layers.Layer`.

    Call arguments:
        x: (B, T, D), the target.
        enc_output: (B, S, I), what the encoder gave.
        training: whether anything is dropped.
        look_ahead_mask: for block 1, True (or 1) means attend; broadcasts to (B, T, T) or (B, H, T, T).
        padding_mask: for block 2, of the source: (B, S) or (B, 1, S), or what broadcasts to (B, T, S) or (B, H, T, S)
            and has three or four axes: two always mean padding.
        return_attention_scores: whether the scores are returned; without them memory grows less with T and S, and the
            output is the same.
        use_causal_mask: whether block 1 hides the future, besides what `look_ahead_mask` hides; `None` means that it
            does if there is no `look_ahead_mask`.

    Returns:
        ((B, T, D), attn_weights_block1 (B, H, T, T), attn_weights_block2 (B, H, T, S)), of the compute dtype; without
        `return_attention_scores` the first alone.

    Raises:
        ValueError: an argument or a shape does not fit; the message says how to mend it.

    >>> import keras
    >>> layer = DecoderLayer(embedding_dim=6, num_heads=3, fully_connected_dim=7)
    >>> x, enc_output = keras.ops.ones((2, 4, 6)), keras.ops.ones((2, 5, 8))
    >>> [tuple(y.shape) for y in layer(x, enc_output)]
    [(2, 4, 6), (2, 3, 4, 4), (2, 3, 4, 5)]
    >>> tuple(layer.mha2.key_dense.kernel.shape)  # (H, I, O): K = enc_output times this
    (3, 8, 2)
    """

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
        x: Any,
        enc_output: Any,
        training: Any = None,
        look_ahead_mask: Any = None,
        padding_mask: Any = None,
        return_attention_scores: bool = True,
        use_causal_mask: bool | None = None,
    ) -> Any:
        causal = look_ahead_mask is None if use_causal_mask is None else use_causal_mask
        padding_mask = as_attention_mask(self.name, "padding_mask", padding_mask, x)
        options = {"training": training, "return_attention_scores": return_attention_scores}

        def block1(query: Any) -> Any:
            return self.mha1(query, query, attention_mask=look_ahead_mask, use_causal_mask=causal, **options)

        def block2(query: Any) -> Any:
            return self.mha2(query, key=enc_output, value=enc_output, attention_mask=padding_mask, **options)

        outputs = self._through(x, block1, block2, training)
        return outputs if return_attention_scores else outputs[0]

    def _through(self, x: Any, block1: Any, block2: Any, training: Any) -> tuple[Any, ...]:
        """x through the three sublayers, and what the two blocks gave besides their outputs."""
        x, *more1 = self._residual(x, block1, self.layernorm1, self.dropout_mha1, training)
        x, *more2 = self._residual(x, block2, self.layernorm2, self.dropout_mha2, training)
        (x,) = self._residual(x, self.ffn, self.layernorm3, self.dropout_ffn, training)
        return x, *more1, *more2


@keras.saving.register_keras_serializable("kmha")
class Decoder(Stack):
    """Embeds token ids, adds positions, and runs `num_layers` decoder layers.

    Args:
        num_layers: N.
        embedding_dim: D.
        num_heads: H.
        fully_connected_dim: the features in between in the feed-forward networks.
        target_vocab_size: how many token ids there are.
        maximum_position_encoding: how many positions there may be.
        dropout_rate: of the embeddings, the scores, and what the feed-forward networks give.
        layernorm_eps: of the normalizations.
        pad_id: the token id that nothing attends to where no `look_ahead_mask` is given; `None`: there is none.
        embeddings_initializer: of the embedding.
        embedding: a `TokenEmbedding` to share, in place of one of its own.
        **kwargs: `key_dim`, `norm`, `activation`, `residual_dropout_rate` and `attention`, as in `EncoderLayer`; those
            of `keras.layers.Layer`.

    Call arguments:
        x: token ids (B, T), integer.
        enc_output: (B, S, D), of the encoder.
        training: whether anything is dropped.
        look_ahead_mask: as in `DecoderLayer`; `None` hides the future, and padding as the ids show it.
        padding_mask: as in `DecoderLayer`; `None` hides nothing: the source ids, which tell, are not at hand here.
        return_attention_scores: whether the scores are returned.

    Returns:
        ((B, T, D), dict of scores by name), i from 1: `decoder_layer{i}_block1_self_att` (B, H, T, T) and
        `decoder_layer{i}_block2_decenc_att` (B, H, T, S); without `return_attention_scores` the first alone.

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
        super().__init__(
            num_layers,
            embedding_dim,
            num_heads,
            fully_connected_dim,
            ("target_vocab_size", target_vocab_size),
            maximum_position_encoding,
            dropout_rate,
            layernorm_eps,
            pad_id,
            embeddings_initializer,
            embedding,
            **kwargs,
        )

    def build(self, x_shape: Any = None, enc_output_shape: Any = None) -> None:
        """Makes the weights; only the width of `enc_output` matters, and is D where it is not given."""
        self._build(*(() if enc_output_shape is None else ((None, None, enc_output_shape[-1]),)))

    def compute_output_spec(self, x: Any, enc_output: Any, return_attention_scores: bool = True, **_: Any) -> Any:
        return self._spec(x, [x.shape[1], enc_output.shape[1]], return_attention_scores)

    def call(
        self,
        x: Any,
        enc_output: Any,
        training: Any = None,
        look_ahead_mask: Any = None,
        padding_mask: Any = None,
        return_attention_scores: bool = True,
    ) -> Any:
        causal = look_ahead_mask is None
        options = {"look_ahead_mask": self.padding(x) if causal else look_ahead_mask, "padding_mask": padding_mask}
        return self._run(x, training, return_attention_scores, enc_output, use_causal_mask=causal, **options)
