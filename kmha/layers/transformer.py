"""`Transformer`: encoder, decoder and a final projection to the vocabulary (Vaswani et al. 2017, figure 1)."""

from typing import Any

import keras
from keras import ops

from kmha.core.tensors import Tensor, at_least_float32
from kmha.layers import cache, checks
from kmha.layers.decoder import Decoder
from kmha.layers.embedding import TiedLogits
from kmha.layers.encoder import Encoder
from kmha.layers.multi_head_attention import MultiHeadAttention
from kmha.layers.transformer_blocks import OPTIONS


@keras.saving.register_keras_serializable("kmha")
class Transformer(checks.CheckedLayer, keras.Model):
    """An encoder-decoder model that predicts the probabilities of the next target token at every position.

    Args:
        num_layers: Number of encoder layers and of decoder layers (N).
        embedding_dim: Features of the embeddings (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Hidden features of the feed-forward networks.
        input_vocab_size: Number of source token ids.
        target_vocab_size: Number of target token ids (V).
        max_positional_encoding_input: Maximum number of source positions.
        max_positional_encoding_target: Maximum number of target positions.
        dropout_rate: Dropout rate of the embeddings, the scores and the feed-forward networks' outputs.
        layernorm_eps: Epsilon of the layer normalizations.
        tie_embeddings: "target" computes logits with the matrix of the target embedding. "all" also uses this matrix
            for the source (Press & Wolf 2017; section 3.4 of the paper). `None` uses three matrices, as in the course.
        final_activation: "softmax" makes the model return probabilities, `None` logits.
        pad_id: Token id of padding, which nothing attends to. `None` means no such id.
        embeddings_initializer: Initializer of the embeddings.
        heads: Number of heads of the attention layers from which `kmha.layers.prune_heads` has removed some, by the
            names of their scores, for example {"encoder_layer1_self_att": 2}. `None` means `num_heads` for all.
        **kwargs: `key_dim`, `norm`, `activation`, `residual_dropout_rate` and `attention`, as in `EncoderLayer`, and
            arguments of `keras.Model`.

    Call arguments:
        input_sentence: Source ids (B, S), integers, or the pair (source ids, target ids).
        output_sentence: Target ids (B, T), integers. Position t sees only the ids at positions up to t.
        training: Apply dropout.
        enc_padding_mask: Mask of the encoder, as in `EncoderLayer`. `None` means that the model derives the mask from
            the ids, which an exported model does too.
        look_ahead_mask: Mask of the decoder, as in `DecoderLayer`. `None` hides later positions and padding.
        dec_padding_mask: Mask of the decoder's attention to the source. `None` means that the model derives the mask
            from the ids.
        return_attention_scores: Also return the decoder's scores. Without them, the output is the same but needs less
            memory.

    Returns:
        The output (B, T, V), and the dict of scores that `Decoder` returns, of the compute dtype. Without
        `return_attention_scores`, only the output.

    Raises:
        ValueError: If an argument or a shape is invalid.

    Example:

    >>> import keras
    >>> model = Transformer(2, 6, 3, 7, 11, 12, max_positional_encoding_input=20, max_positional_encoding_target=21)
    >>> source, target = keras.ops.array([[4, 5, 6, 0]]), keras.ops.array([[1, 7, 8]])
    >>> probabilities, scores = model(source, target)
    >>> tuple(probabilities.shape), len(scores), tuple(scores["decoder_layer2_block2_decenc_att"].shape)
    ((1, 3, 12), 4, (1, 3, 3, 4))
    """

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        input_vocab_size: int,
        target_vocab_size: int,
        max_positional_encoding_input: int,
        max_positional_encoding_target: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        *,
        tie_embeddings: str | None = None,
        final_activation: str | None = "softmax",
        pad_id: int | None = 0,
        embeddings_initializer: Any = "uniform",
        heads: dict[str, int] | None = None,
        **kwargs: Any,
    ) -> None:
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        with checks.naming_unknown(Transformer, *OPTIONS):
            super().__init__(**kwargs)
        layer = type(self).__name__
        self.tie_embeddings = checks.choice(layer, "tie_embeddings", tie_embeddings, (None, "target", "all"))
        self.final_activation = checks.choice(layer, "final_activation", final_activation, ("softmax", None))
        if tie_embeddings == "all" and input_vocab_size != target_vocab_size:
            fix = 'Use the same vocabulary for both languages, or tie_embeddings="target".'
            expected = f'input_vocab_size={input_vocab_size} with tie_embeddings="all"'
            raise checks.invalid(layer, "target_vocab_size", expected, target_vocab_size, fix)
        sizes = num_layers, embedding_dim, num_heads, fully_connected_dim
        shared = {"pad_id": pad_id, "embeddings_initializer": embeddings_initializer, **options}
        shared["dtype"] = self.dtype_policy
        rates = dropout_rate, layernorm_eps
        source, target = max_positional_encoding_input, max_positional_encoding_target
        parts: list[dict[str, int]] = [{}, {}]
        for name, number in checks.heads(layer, heads).items():
            parts[not str(name).startswith("encoder_")][name] = number
        shared_source = {**shared, "heads": parts[0], "name": "encoder"}
        self.encoder = Encoder(*sizes, input_vocab_size, source, *rates, **shared_source)
        shared |= {"heads": parts[1], "name": "decoder"}
        embedding = self.encoder.embedding if tie_embeddings == "all" else None
        self.decoder = Decoder(*sizes, target_vocab_size, target, *rates, embedding=embedding, **shared)
        last = {"name": "final_layer", "dtype": self.dtype_policy}
        tied = TiedLogits(self.decoder.embedding, **last) if tie_embeddings else None
        self.final_layer = tied or keras.layers.Dense(target_vocab_size, **last)
        self._arguments = {
            **dict(zip(("num_layers", "embedding_dim", "num_heads", "fully_connected_dim"), sizes, strict=True)),
            "input_vocab_size": input_vocab_size,
            "target_vocab_size": target_vocab_size,
            "max_positional_encoding_input": source,
            "max_positional_encoding_target": target,
            "dropout_rate": dropout_rate,
            "layernorm_eps": layernorm_eps,
            "tie_embeddings": tie_embeddings,
            "final_activation": final_activation,
            "pad_id": pad_id,
            "embeddings_initializer": self.encoder.get_config()["embeddings_initializer"],
            **options,
        }

    # Keras exports a model with one argument, of the shapes that `build` received and of the model's compute dtype.
    input_dtype = property(lambda self: "int32")
    _build_shapes_dict = property(
        lambda self: {"input_shape": ((None, None), (None, None))} if self.built else None, lambda self, shapes: None
    )

    def build(self, input_shape: Any = None) -> None:
        """Make the weights, whose shapes do not depend on the input's shape."""
        if not self.built:
            self.encoder.build()
            self.decoder.build()
            self.final_layer.build((None, self._arguments["embedding_dim"]))

    def call(
        self,
        input_sentence: Any,
        output_sentence: Tensor = None,
        training: Any = None,
        enc_padding_mask: Tensor = None,
        look_ahead_mask: Tensor = None,
        dec_padding_mask: Tensor = None,
        return_attention_scores: bool = True,
    ) -> Any:
        source, target = self._pair(input_sentence, output_sentence)
        masks = enc_padding_mask, look_ahead_mask, dec_padding_mask
        features, scores = self._features(source, target, training, masks, return_attention_scores)
        output = self.logits(features)
        if self.final_activation == "softmax":
            output = ops.softmax(output)
        return (output, scores) if return_attention_scores else output

    def compute_output_spec(
        self, input_sentence: Any, output_sentence: Any = None, return_attention_scores: bool = True, **_: Any
    ) -> Any:
        source, target = self._pair(input_sentence, output_sentence)
        encoded = self.encoder.compute_output_spec(source)
        decoded = self.decoder.compute_output_spec(target, encoded, return_attention_scores=return_attention_scores)
        shape = (*target.shape, self._arguments["target_vocab_size"])
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (output, decoded[1]) if return_attention_scores else output

    def features(self, inputs: tuple[Tensor, Tensor], training: Any = None) -> Tensor:
        """Return the inputs of the final projection, (B, T, D), for a pair (source ids, target ids)."""
        self.build()
        return self._features(*self._pair(inputs), training)[0]

    def logits(self, features: Tensor) -> Tensor:
        """Return logits (B, T, V) for features (B, T, D), or with other axes before D."""
        rows = ops.reshape(features, (-1, features.shape[-1]))  # folded, so that the kernel's gradient is one product
        rows = self.final_layer(rows)
        return ops.reshape(rows, (*ops.shape(features)[:-1], rows.shape[-1]))

    @property
    def output_kernel(self) -> Tensor:
        """The kernel of the final projection, of shape (V, D) if embeddings are tied, else (D, V)."""
        self.build()
        return self.decoder.embedding.embeddings if self.tie_embeddings else self.final_layer.kernel

    @property
    def output_bias(self) -> Tensor:
        """The bias of the logits (V,)."""
        self.build()
        return self.final_layer.bias

    @property
    def output_kernel_is_transposed(self) -> bool:
        """Tell whether `output_kernel` is (V, D), as an embedding is."""
        return self.tie_embeddings is not None

    def encode(
        self,
        input_sentence: Tensor,
        enc_padding_mask: Tensor = None,
        training: Any = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Return the encoder's output (B, S, D) for source ids (B, S), and its scores if they are asked for."""
        self.build()
        options = {"training": training, "return_attention_scores": return_attention_scores}
        return self.encoder(input_sentence, mask=enc_padding_mask, **options)

    def start_cache(self, input_sentence: Tensor, beams: int = 1, length: int | None = None) -> cache.Cache:
        """Return the cache for `step`, with which to decode `beams` sequences for each source sentence in (B, S).

        With a `length`, which is the maximum number of steps, all steps have the same shapes.
        """
        encoded, padding = self.encode(input_sentence), self.encoder.padding(input_sentence)
        state = cache.start(self.decoder, encoded, padding, beams, length)
        if self.tie_embeddings:  # (D, V), transposed once instead of at every step
            state["final_kernel"] = ops.transpose(ops.cast(self.output_kernel, self.compute_dtype))
        return state

    def step(self, ids: Tensor, state: cache.Cache) -> tuple[Tensor, cache.Cache]:
        """Return logits (N, V) for the tokens after `ids` (N,), in float32 at least, and the cache for the next step.

        >>> import keras
        >>> model = Transformer(1, 6, 3, 7, 11, 12, 20, 21, tie_embeddings="target")
        >>> state = model.start_cache(keras.ops.array([[4, 5, 6, 0]]))
        >>> logits, state = model.step(keras.ops.array([1]), state)
        >>> tuple(logits.shape), int(state["index"])
        ((1, 12), 1)
        """
        features, state = cache.step(self.decoder, ids, state)
        if self.tie_embeddings:
            logits = ops.add(ops.matmul(features, state["final_kernel"]), ops.cast(self.output_bias, features.dtype))
        else:
            logits = self.final_layer(features)
        return ops.cast(logits, at_least_float32(logits.dtype)), state

    def attentions(self) -> dict[str, MultiHeadAttention]:
        """Return the attention layers, by the names of their scores."""
        return {**self.encoder.attentions(), **self.decoder.attentions()}

    @property
    def heads(self) -> dict[str, int] | None:
        """Numbers of heads of the attention layers that `kmha.layers.prune_heads` has changed, by name, or `None`."""
        return {**(self.encoder.heads or {}), **(self.decoder.heads or {})} or None

    def get_config(self) -> dict[str, Any]:
        heads = {} if self.heads is None else {"heads": self.heads}
        return {**super().get_config(), **self._arguments, **heads}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return cls(**config)

    def _features(
        self,
        source: Tensor,
        target: Tensor,
        training: Any,
        masks: Any = (None, None, None),
        return_scores: bool = False,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        encoder_mask, look_ahead_mask, decoder_mask = masks
        if decoder_mask is None:
            decoder_mask = self.encoder.padding(source)
        options = {"padding_mask": decoder_mask, "return_attention_scores": return_scores}
        enc_output = self.encoder(source, training=training, mask=encoder_mask)
        decoded = self.decoder(target, enc_output, training=training, look_ahead_mask=look_ahead_mask, **options)
        return decoded if return_scores else (decoded, {})

    def _pair(self, input_sentence: Any, output_sentence: Tensor = None) -> tuple[Tensor, Tensor]:
        if output_sentence is None:
            if isinstance(input_sentence, (tuple, list)) and len(input_sentence) == 2:
                return tuple(input_sentence)
            raise ValueError(
                f"{self.name}: expected source and target ids, `model(source, target)` or `model((source, target))`. "
                f"Received: only {type(input_sentence).__name__}. In training, shift the target by one: it starts with "
                "the start token and lacks the last token."
            )
        return input_sentence, output_sentence
