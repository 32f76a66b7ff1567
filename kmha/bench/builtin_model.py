"""The Transformer of Vaswani et al. 2017, assembled from Keras' own layers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from kmha.bench.cases import ModelRow
from kmha.core import positions

EPSILON = 1e-6  # epsilon of all layer normalizations

Block = Callable[..., Any]  # arguments: x and mask, and in the decoder also the encoder's output and its mask


class TiedEmbedding(layers.Layer):
    """The embedding of token ids, times √D and plus positions. With `reverse`, it computes logits from vectors."""

    def __init__(self, row: ModelRow) -> None:
        super().__init__()
        self.embedding = layers.Embedding(row.vocabulary, row.width)
        self.encoding = positions.sinusoidal(max(row.source, row.length), row.width).astype("float32")

    def build(self, shape: Any = None) -> None:
        self.embedding.build()
        self.bias = self.add_weight(name="bias", shape=(self.embedding.input_dim,), initializer="zeros")

    def call(self, inputs: Any, start: Any = 0, reverse: bool = False) -> Any:
        if reverse:
            return ops.matmul(inputs, ops.transpose(self.embedding.embeddings)) + self.bias
        x = self.embedding(inputs) * math.sqrt(self.embedding.output_dim)
        return x + ops.take(self.encoding, start + ops.arange(ops.shape(inputs)[1]), axis=0)


class BlockLayers:
    """The sublayers of a block with one or two attention layers, made and built in the order of `kmha.layers`."""

    def __init__(self, row: ModelRow, attentions: int) -> None:
        sizes = row.heads, row.width // row.heads
        self.attentions = [layers.MultiHeadAttention(*sizes, dropout=row.rate) for _ in range(attentions)]
        self.dense = [layers.Dense(row.feed_forward, "relu"), layers.Dense(row.width)]
        self.norms = [layers.LayerNormalization(epsilon=EPSILON) for _ in range(attentions + 1)]
        self.dropout = layers.Dropout(row.rate)

    def encode(self, x: Any, mask: Any) -> Any:
        return self._finish(self.norms[0](x + self.attentions[0](x, x, attention_mask=ops.expand_dims(mask, 1))))

    def decode(self, x: Any, mask: Any, memory: Any, memory_mask: Any) -> Any:
        options = {"attention_mask": ops.expand_dims(mask, 1), "use_causal_mask": True}
        x = self.norms[0](x + self.attentions[0](x, x, **options))
        attended = self.attentions[1](x, memory, attention_mask=ops.expand_dims(memory_mask, 1))
        return self._finish(self.norms[1](x + attended))

    def _finish(self, x: Any) -> Any:
        return self.norms[-1](x + self.dropout(self.dense[1](self.dense[0](x))))


class EncoderDecoder:
    """A model made of blocks. `whole` maps source and target ids to logits (B, T, V). Decoding uses the model's parts.

    Source, target and logits share the embedding. `dropouts` are those of source and target embedding.
    """

    def __init__(
        self, row: ModelRow, encoder: Sequence[Block], decoder: Sequence[Block], dropouts: Any, embedding: TiedEmbedding
    ) -> None:
        self.embedding = embedding
        source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
        memory, mask = dropouts[0](embedding(source)), ops.not_equal(source, 0)
        for block in encoder:
            memory = block(memory, mask)
        self.encoder = keras.Model(source, memory)
        encoded = keras.Input((None, row.width))
        x = dropouts[1](embedding(target))
        for block in decoder:
            x = block(x, ops.not_equal(target, 0), encoded, mask)
        self.decoder = keras.Model([target, encoded, source], x)
        features = self.decoder([target, self.encoder(source), source])
        self.whole = keras.Model([source, target], embedding(features, reverse=True))


def builtin(row: ModelRow) -> tuple[EncoderDecoder, list[BlockLayers], list[BlockLayers]]:
    """Return a model made of Keras' own layers, and the sublayers of its encoder blocks and decoder blocks."""
    embedding = TiedEmbedding(row)
    encoder, first = [BlockLayers(row, 1) for _ in range(row.layers)], layers.Dropout(row.rate)
    decoder, second = [BlockLayers(row, 2) for _ in range(row.layers)], layers.Dropout(row.rate)
    blocks = [block.encode for block in encoder], [block.decode for block in decoder]
    return EncoderDecoder(row, *blocks, (first, second), embedding), encoder, decoder


def compiled(model: Any, row: ModelRow) -> Any:
    """Return `model`, compiled as users of Keras do: one-hot labels for smoothing, and zero weights for padding."""

    def loss(targets: Any, logits: Any) -> Any:
        labels, weights = ops.one_hot(targets, row.vocabulary), ops.cast(ops.not_equal(targets, 0), "float32")
        options = {"from_logits": True, "label_smoothing": row.smoothing}
        losses = keras.losses.categorical_crossentropy(labels, logits, **options)
        return ops.sum(weights * losses) / ops.sum(weights)

    model.compile("adam", loss=loss, metrics=["sparse_categorical_accuracy"], jit_compile=False)
    return model


def recomputing(model: EncoderDecoder, row: ModelRow, start: int) -> Any:
    """Return a greedy decoder without a cache, which runs the decoder over the whole prefix for every token."""

    @tf.function(autograph=False)
    def decode(source: Any) -> Any:
        memory = model.encoder(source)

        def body(ids: Any) -> Any:
            logits = model.embedding(model.decoder([ids, memory, source])[:, -1], reverse=True)
            return [tf.concat([ids, tf.argmax(logits, axis=-1, output_type=tf.int32)[:, None]], axis=1)]

        ids = [tf.fill((row.batch, 1), start)]
        shapes = [tf.TensorShape((row.batch, None))]
        [ids] = tf.while_loop(lambda ids: tf.shape(ids)[1] <= row.length, body, ids, shapes)
        return ids[:, 1:]

    return decode
