"""The Transformer of Vaswani et al. 2017 out of Keras' own layers, or out of KerasHub's blocks."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from kmha.bench.cases import ModelRow
from kmha.core import positions

EPSILON = 1e-6  # of the normalizations

Block = Callable[..., Any]  # of x and its mask; in the decoder of the encoder's output and its mask, too


class Ends(layers.Layer):
    """Both ends of a model: token ids to vectors times √D with positions added; with `reverse`, vectors to logits."""

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


class Parts:
    """The sublayers of one block, with `attentions` of one or two; drawn and built in the order of `kmha.layers`."""

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


class Assembled:
    """A model of blocks: `whole` (source ids, target ids) to logits (B, T, V), and the pieces that decoding needs.

    Args:
        row: the sizes.
        encoder: blocks, called with x and its mask.
        decoder: blocks, called with x, its mask, the encoder's output and its mask.
        dropouts: of the source's and of the target's embedding.
        ends: shared by source, target and logits.
    """

    def __init__(
        self, row: ModelRow, encoder: Sequence[Block], decoder: Sequence[Block], dropouts: Any, ends: Ends
    ) -> None:
        self.ends = ends
        source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
        memory, mask = dropouts[0](ends(source)), ops.not_equal(source, 0)
        for block in encoder:
            memory = block(memory, mask)
        self.encoder = keras.Model(source, memory)
        given = keras.Input((None, row.width))
        x = dropouts[1](ends(target))
        for block in decoder:
            x = block(x, ops.not_equal(target, 0), given, mask)
        self.decoder = keras.Model([target, given, source], x)
        features = self.decoder([target, self.encoder(source), source])
        self.whole = keras.Model([source, target], ends(features, reverse=True))


def builtin(row: ModelRow) -> tuple[Assembled, list[Parts], list[Parts]]:
    """Of Keras' own layers, and the sublayers of encoder and decoder."""
    ends = Ends(row)
    encoder, first = [Parts(row, 1) for _ in range(row.layers)], layers.Dropout(row.rate)
    decoder, second = [Parts(row, 2) for _ in range(row.layers)], layers.Dropout(row.rate)
    blocks = [parts.encode for parts in encoder], [parts.decode for parts in decoder]
    return Assembled(row, *blocks, (first, second), ends), encoder, decoder


def compiled(model: Any, row: ModelRow) -> Any:
    """`model`, to be trained as Keras' users do it: one-hot labels for the smoothing, and padding weighed with zero."""

    def loss(targets: Any, logits: Any) -> Any:
        labels, weights = ops.one_hot(targets, row.vocabulary), ops.cast(ops.not_equal(targets, 0), "float32")
        options = {"from_logits": True, "label_smoothing": row.smoothing}
        losses = keras.losses.categorical_crossentropy(labels, logits, **options)
        return ops.sum(weights * losses) / ops.sum(weights)

    model.compile("adam", loss=loss, metrics=["sparse_categorical_accuracy"], jit_compile=False)
    return model


def recomputing(model: Assembled, row: ModelRow, start: int) -> Any:
    """Greedy decoding that runs the decoder over the whole prefix for every token; the encoder runs once."""

    @tf.function(autograph=False)
    def decode(source: Any) -> Any:
        memory = model.encoder(source)

        def body(ids: Any) -> Any:
            logits = model.ends(model.decoder([ids, memory, source])[:, -1], reverse=True)
            return [tf.concat([ids, tf.argmax(logits, axis=-1, output_type=tf.int32)[:, None]], axis=1)]

        ids = [tf.fill((row.batch, 1), start)]
        shapes = [tf.TensorShape((row.batch, None))]
        [ids] = tf.while_loop(lambda ids: tf.shape(ids)[1] <= row.length, body, ids, shapes)
        return ids[:, 1:]

    return decode
