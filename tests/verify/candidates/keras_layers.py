"""Keras layers as people write them: right ones, and with `wrong`, one mistake or two."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops


class Course(keras.layers.Layer):
    """As in courses: four `Dense`, a mask (B, 1, T, S) with 1 for attend, and the root taken in float32."""

    def __init__(self, d_model, num_heads, dropout_rate=0.0, wrong=""):
        super().__init__()
        self.d_model, self.num_heads, self.depth = d_model, num_heads, d_model // num_heads
        self.wrong = wrong.split(" + ")
        self.wq, self.wk, self.wv = (keras.layers.Dense(d_model) for _ in range(3))
        self.dense = keras.layers.Dense(d_model)
        self.dropout = keras.layers.Dropout(dropout_rate)

    def split_heads(self, x):
        batch = tf.shape(x)[0]
        if "split by reshape" in self.wrong:
            return tf.reshape(x, (batch, self.num_heads, -1, self.depth))
        return tf.transpose(tf.reshape(x, (batch, -1, self.num_heads, self.depth)), (0, 2, 1, 3))

    def call(self, v, k, q, mask, training=None):
        if "query is key" in self.wrong:
            q = k
        wv = self.wk if "key's kernel for value" in self.wrong else self.wv
        q, k, v = self.split_heads(self.wq(q)), self.split_heads(self.wk(k)), self.split_heads(wv(v))
        if "key and value swapped" in self.wrong:
            k, v = v, k
        scores = self.scores(tf.matmul(q, k, transpose_b=True), mask)
        kept = self.dropout(scores, training=True if "dropout left on" in self.wrong else training)
        mixed = tf.matmul(scores if "dropout unused" in self.wrong else kept, v)
        if "merged without transpose" not in self.wrong:
            mixed = tf.transpose(mixed, (0, 2, 1, 3))
        return self.dense(tf.reshape(mixed, (tf.shape(v)[0], -1, self.d_model))), scores

    def scores(self, logits, mask):
        depth = self.d_model if "scaled by the width" in self.wrong else self.depth
        if "not scaled" not in self.wrong:
            logits = logits / tf.math.sqrt(tf.cast(depth, tf.float32))
        if mask is not None:
            mask = tf.cast(mask, tf.float32)
            logits += (mask if "mask inverted" in self.wrong else 1.0 - mask) * -1e9
            if "mask adds 1e-9" in self.wrong:
                logits -= (1.0 - mask) * (-1e9 + 1e-9)
        return tf.nn.softmax(logits, axis=-2 if "softmax over queries" in self.wrong else -1)


class Nameless(keras.layers.Layer):
    """Its four `Dense` have no names, and may be made in another order than query, key, value, output."""

    def __init__(self, units, heads, order=(0, 1, 2, 3), scaled=True):
        super().__init__()
        self.heads, self.size, self.order, self.scaled = heads, units // heads, list(order), scaled
        self.d = [keras.layers.Dense(units) for _ in range(4)]

    def call(self, query, value, key=None, attention_mask=None):
        key = value if key is None else key
        made = [(layer(x), x) for layer, x in zip([self.d[i] for i in self.order], (query, key, value), strict=False)]
        q, k, v = (ops.reshape(y, (*x.shape[:2], self.heads, self.size)) for y, x in made)
        logits = ops.einsum("bthd,bshd->bhts", q, k) / (self.size**0.5 if self.scaled else 1.0)
        if attention_mask is not None:
            logits = ops.where(attention_mask[:, None], logits, -1e9)
        mixed = ops.einsum("bhts,bshd->bthd", ops.softmax(logits), v)
        return self.d[self.order[3]](ops.reshape(mixed, (*query.shape[:2], -1)))


class OneHead(keras.layers.Layer):
    """Three matrices, one head, no output projection."""

    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        self.w_q, self.w_k, self.w_v = (self.add_weight(shape=(shape[-1], self.units), name=n) for n in "qkv")

    def call(self, x):
        q, k, v = x @ self.w_q, x @ self.w_k, x @ self.w_v
        return ops.softmax(q @ ops.swapaxes(k, 1, 2) / self.units**0.5) @ v


class HeadLists(keras.layers.Layer):
    """As *The Implemented Transformer* has it: a `Dense` for each head and role."""

    def __init__(self, num_heads, d_model, d_k, wrong=""):
        super().__init__()
        self.queries, self.keys, self.values = ([keras.layers.Dense(d_k) for _ in range(num_heads)] for _ in range(3))
        self.wo = keras.layers.Dense(d_model)
        self.d_k, self.wrong = d_k, wrong

    def call(self, q, k, v):
        heads = []
        for wq, wk, wv in zip(self.queries, self.keys, self.values, strict=True):
            wv = self.values[0] if self.wrong == "one value kernel" else wv
            scores = ops.softmax(wq(q) @ ops.swapaxes(wk(k), 1, 2) / self.d_k**0.5)
            heads.append(scores @ wv(v))
        joined = sum(heads) / len(heads) if self.wrong == "averaged" else None
        if self.wrong == "averaged":
            return self.wo(ops.concatenate([joined] * len(heads), axis=-1))
        return self.wo(ops.concatenate(heads, axis=-1))


class Packed(keras.layers.Layer):
    """One `Dense` for query, key and value, causal unasked, as language models have it."""

    def __init__(self, n_embd, n_head, shift=0):
        super().__init__()
        self.c_attn, self.c_proj = keras.layers.Dense(3 * n_embd, use_bias=False), keras.layers.Dense(n_embd)
        self.n_head, self.shift = n_head, shift

    def call(self, x):
        batch, length, width = x.shape
        parts = ops.split(self.c_attn(x), 3, axis=-1)
        shape = (batch, length, self.n_head, width // self.n_head)
        q, k, v = (ops.transpose(ops.reshape(part, shape), (0, 2, 1, 3)) for part in parts)
        logits = q @ ops.transpose(k, (0, 1, 3, 2)) / (width // self.n_head) ** 0.5
        causal = np.tril(np.ones((length, length), bool), self.shift)
        mixed = ops.softmax(ops.where(causal, logits, -1e9)) @ v
        return self.c_proj(ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), x.shape))


class Lists(keras.layers.Layer):
    """Called with a list, and with a padding mask (B, 1, 1, S)."""

    def __init__(self, d_model, num_heads, scale=1.0):
        super().__init__()
        self.scale = scale
        self.attention = keras.layers.MultiHeadAttention(num_heads, d_model // num_heads)

    def call(self, inputs, padding_mask=None):
        query, key, value = inputs
        mask = None if padding_mask is None else padding_mask[:, 0] * np.ones((1, query.shape[1], 1), bool)
        return self.attention(query * self.scale, value, key, attention_mask=mask)


class Half(keras.layers.Layer):
    """Right but in float16, where it multiplies before it scales."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.query, self.key, self.value, self.out = (keras.layers.Dense(d_model) for _ in range(4))
        self.num_heads, self.size = num_heads, d_model // num_heads

    def call(self, query, value):
        heads = [ops.reshape(y, (*y.shape[:2], self.num_heads, self.size)) for y in self._projected(query, value)]
        q, k, v = (ops.transpose(x, (0, 2, 1, 3)) for x in heads)
        scores = ops.softmax(q @ ops.transpose(k, (0, 1, 3, 2)) / self.size**0.5)
        return self.out(ops.reshape(ops.transpose(scores @ v, (0, 2, 1, 3)), query.shape))

    def _projected(self, query, value):
        return self.query(query), self.key(value), self.value(value)


class Strange(keras.layers.Layer):
    """Mistakes that are in no bank; `how` says which."""

    def __init__(self, num_heads, key_dim, how):
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(num_heads, key_dim)
        self.how = how

    def call(self, query, value, key=None, attention_mask=None, return_attention_scores=False):
        output, scores = self.attention(query, value, key, attention_mask=attention_mask, return_attention_scores=True)
        if self.how == "second item":
            output = output * ops.reshape(
                ops.convert_to_tensor(1.0 + 0.5 * (np.arange(output.shape[0]) == 1)), (-1, 1, 1)
            )
        if self.how == "a constant times":
            output = output * 1.7
        if self.how == "permuted":
            output = ops.roll(output, 1, axis=-1)
        if self.how == "constant over heads":
            scores = scores + 0.25
        if self.how == "only where masked" and attention_mask is not None:
            output = output + ops.cast(ops.any(~ops.cast(attention_mask, "bool"), axis=-1), output.dtype)[..., None]
        if self.how == "random":
            output = output + keras.random.normal(output.shape, dtype=output.dtype)
        if self.how == "quick and wrong" and not return_attention_scores:
            output = ops.tanh(output)
        if self.how == "a bias":
            output = output + 0.125
        if self.how == "last position":
            output = ops.concatenate([output[:, :-1], output[:, -1:] + 1.0], axis=1)
        return (output, scores) if return_attention_scores else output


class Bare(keras.layers.Layer):
    """Kernels (H, I, O) of its own, no biases but the last, and an additive reading of a boolean mask."""

    def __init__(self, heads, key_dim, output_dim):
        super().__init__()
        self.sizes = heads, key_dim, output_dim

    def build(self, query_shape, value_shape):
        heads, size, width = self.sizes
        self.q = self.add_weight(shape=(heads, query_shape[-1], size), name="a")
        self.k, self.v = (self.add_weight(shape=(heads, value_shape[-1], size), name=name) for name in "bc")
        self.out_kernel = self.add_weight(shape=(heads, size, width), name="d")
        self.out_bias = self.add_weight(shape=(width,), name="e")

    def call(self, query, value, mask):
        q, k, v = (ops.einsum("bpi,hio->bhpo", x, w) for x, w in ((query, self.q), (value, self.k), (value, self.v)))
        logits = ops.einsum("bhto,bhso->bhts", q, k) / self.sizes[1] ** 0.5
        if mask is not None:
            logits = logits + ops.where(mask[:, None], 0.0, -1e9)
        return ops.einsum("bhto,hoe->bte", ops.softmax(logits) @ v, self.out_kernel) + self.out_bias


class Fixed(keras.layers.Layer):
    """A number of heads that is written into it."""

    def __init__(self, units):
        super().__init__()
        self.num_heads = 3
        self.attention = keras.layers.MultiHeadAttention(self.num_heads, units // self.num_heads)

    def call(self, x):
        return self.attention(x, x)
