"""The blocks assembled from Keras' own layers, in the order of the course, to compare ours with."""

from types import SimpleNamespace

import keras
import pytest
from keras import ops

from kmha.core import positions


class _Block(keras.layers.Layer):
    def __init__(self, width, heads, between, rate, pre=False, residual=0.0, attentions=1):
        super().__init__()
        self.pre = pre
        self.mhas = [keras.layers.MultiHeadAttention(heads, width // heads, dropout=rate) for _ in range(attentions)]
        self.dense1 = keras.layers.Dense(between, "relu")
        self.dense2 = keras.layers.Dense(width)
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(attentions + 1)]
        self.drops = [keras.layers.Dropout(rate) for rate in (*[residual] * attentions, rate)]

    def residual(self, number, x, sublayer, training):
        norm = self.norms[number]
        x = x + self.drops[number](sublayer(norm(x) if self.pre else x), training=training)
        return x if self.pre else norm(x)

    def ffn(self, x):
        return self.dense2(self.dense1(x))


class EncoderLayer(_Block):
    def call(self, x, mask=None, training=None):
        mha = self.mhas[0]
        x = self.residual(0, x, lambda x: mha(x, x, attention_mask=mask, training=training), training)
        return self.residual(1, x, self.ffn, training)

    def compute_mask(self, x, mask):
        return None


class DecoderLayer(_Block):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs, attentions=2)

    def call(self, x, enc_output, look_ahead_mask=None, padding_mask=None, training=None):
        scores = []

        def attend(mha, query, value, mask):
            output, found = mha(query, value, attention_mask=mask, training=training, return_attention_scores=True)
            scores.append(found)
            return output

        x = self.residual(0, x, lambda x: attend(self.mhas[0], x, x, look_ahead_mask), training)
        x = self.residual(1, x, lambda x: attend(self.mhas[1], x, enc_output, padding_mask), training)
        return self.residual(2, x, self.ffn, training), *scores


class _Stack(keras.layers.Layer):
    def __init__(self, layer_class, layers, width, heads, between, vocabulary, rate, embedding=None, **options):
        super().__init__()
        self.embedding = embedding or keras.layers.Embedding(vocabulary, width)
        self.blocks = [layer_class(width, heads, between, rate, **options) for _ in range(layers)]
        self.drop = keras.layers.Dropout(rate)
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6) if options.get("pre") else None

    def embed(self, ids, training):
        width = self.embedding.output_dim
        x = self.embedding(ids) * width**0.5
        return self.drop(x + ops.cast(positions.sinusoidal(ids.shape[1], width), x.dtype), training=training)

    def finish(self, x):
        return x if self.norm is None else self.norm(x)


class Transformer(keras.Model):
    """The full model; `call` takes (source, target)."""

    def __init__(self, layers, width, heads, between, source_size, target_size, rate, tie=None, **options):
        super().__init__()
        sizes = layers, width, heads, between
        self.encoder = _Stack(EncoderLayer, *sizes, source_size, rate, **options)
        shared = self.encoder.embedding if tie == "all" else None
        self.decoder = _Stack(DecoderLayer, *sizes, target_size, rate, embedding=shared, **options)
        self.last = None if tie else keras.layers.Dense(target_size)

    def build(self, input_shape):
        pass  # the layers build themselves when they are called

    def call(self, inputs, training=None):
        source, target = inputs
        padding = ops.expand_dims(ops.not_equal(source, 0), 1)  # (B, 1, S)
        look_ahead = ops.logical_and(
            ops.expand_dims(ops.not_equal(target, 0), 1), ops.tril(ops.ones((1, *[target.shape[1]] * 2), dtype="bool"))
        )
        x = self.encoder.embed(source, training)
        for block in self.encoder.blocks:
            x = block(x, mask=padding, training=training)
        encoded, scores = self.encoder.finish(x), {}
        x = self.decoder.embed(target, training)
        for number, block in enumerate(self.decoder.blocks, 1):
            x, one, two = block(x, encoded, look_ahead_mask=look_ahead, padding_mask=padding, training=training)
            scores[f"decoder_layer{number}_block1_self_att"] = one
            scores[f"decoder_layer{number}_block2_decenc_att"] = two
        x = self.decoder.finish(x)
        if self.last is None:
            return ops.softmax(ops.matmul(x, ops.transpose(self.decoder.embedding.embeddings))), scores
        return ops.softmax(self.last(x)), scores


@pytest.fixture
def assembled():
    return SimpleNamespace(EncoderLayer=EncoderLayer, DecoderLayer=DecoderLayer, Transformer=Transformer)


def _run(call, layer, inputs, upstream, mode):
    """Return (output, gradients of the inputs, gradients of the weights): eager, traced or compiled by XLA."""
    import tensorflow as tf

    inputs = [tf.constant(x) for x in inputs]

    def step():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = call(*inputs)
            loss = tf.reduce_sum(output * upstream)
        return output, *tape.gradient(loss, [*inputs, *(weight.value for weight in layer.trainable_weights)])

    call(*inputs)  # builds
    step = step if mode == "eager" else tf.function(step, autograph=False, jit_compile=mode == "xla")
    output, *gradients = step()
    gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
    return output.numpy(), gradients[: len(inputs)], gradients[len(inputs) :]


@pytest.fixture
def run_step():
    return _run


@pytest.fixture
def same():
    """Compare two results of `run_step` elementwise; kernels (H, I, O) with the built-in's (I, H, O)."""
    import numpy as np

    from kmha.verify import tolerance

    def check(ours, theirs, dtype="float32"):
        output, of_inputs, of_weights = ours
        expected, of_their_inputs, of_their_weights = theirs
        pairs = [(output, expected), *zip(of_inputs, of_their_inputs, strict=True)]
        # Ours come in the order query, key, value, output of each attention, like theirs.
        for one, other in zip(of_weights, of_their_weights, strict=True):
            pairs.append((one, other if one.shape == other.shape else np.swapaxes(other, 0, 1)))
        largest = max(float(np.max(np.abs(other))) for _, other in pairs[1:])
        for number, (one, other) in enumerate(pairs):
            assert one.shape == other.shape
            _, relative = tolerance.difference(one, other, None if number == 0 else largest)
            assert relative <= tolerance.relative(dtype), (number, relative)

    return check
