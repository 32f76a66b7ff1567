"""Encoder layers of public threads in Keras, in own words."""

import keras


class PredictionLayer(keras.layers.Layer):
    """strutive07/transformer-tensorflow2.0#14: the feed-forward's residual adds the layer's input, not the norm's."""

    def __init__(self, d_model, num_heads, dff, dropout_rate=0.1, **options):
        super().__init__(**options)
        self.mha = keras.layers.MultiHeadAttention(num_heads, d_model // num_heads)
        self.ffn = keras.Sequential([keras.layers.Dense(dff, activation="relu"), keras.layers.Dense(d_model)])
        self.layernorm1 = keras.layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = keras.layers.LayerNormalization(epsilon=1e-6)
        self.dropout1, self.dropout2 = keras.layers.Dropout(dropout_rate), keras.layers.Dropout(dropout_rate)

    def call(self, inputs, mask=None, training=False):
        out = self.mha(inputs, inputs, inputs, attention_mask=mask)
        out = self.layernorm1(inputs + self.dropout1(out, training=training))
        out = self.dropout2(self.ffn(out), training=training)
        return self.layernorm2(inputs + out)


class MeterLayer(keras.layers.Layer):
    """goruck/nilm#1: the activation comes after the second dense layer. The attention around it is the usual one."""

    def __init__(self, d_model, num_heads, dff, **options):
        super().__init__(**options)
        self.attention = keras.layers.MultiHeadAttention(num_heads, d_model // num_heads)
        self.w_1, self.w_2 = keras.layers.Dense(dff), keras.layers.Dense(d_model)
        self.activation = keras.layers.Activation("relu")
        self.norm_1 = keras.layers.LayerNormalization(epsilon=1e-6)
        self.norm_2 = keras.layers.LayerNormalization(epsilon=1e-6)

    def call(self, x):
        x = self.norm_1(x + self.attention(x, x))
        return self.norm_2(x + self.activation(self.w_2(self.w_1(x))))
