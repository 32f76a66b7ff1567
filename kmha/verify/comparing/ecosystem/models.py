"""Rows: ways to build a model, its inputs and its masks."""

import contextlib
import io
from pathlib import Path
from typing import Any

import keras
import numpy as np

from kmha.verify.comparing.ecosystem.row import JAX, TENSORFLOW, TORCH, row
from kmha.verify.comparing.ecosystem.small import WORDS, B, E, H, I, O, S, T, array, data, fit, ids, model, must


class OneInput(keras.Model):
    """A model of one input, and the attention in it."""

    def __init__(self, layer: Any, **arguments: Any) -> None:
        super().__init__()
        self.attention, self.dense = layer(H, O, **arguments), keras.layers.Dense(E)

    def call(self, x: Any, training: bool | None = None) -> Any:
        return self.dense(self.attention(x, x, training=training))


@row("functional model")
def functional(layer: Any, folder: Path) -> Any:
    return fit(model(layer))


@row("subclassed model")
def subclassed(layer: Any, folder: Path) -> Any:
    return fit(OneInput(layer))


@row("Sequential of models")
def sequential(layer: Any, folder: Path) -> Any:
    return fit(keras.Sequential([OneInput(layer), keras.layers.Dense(I), OneInput(layer)]))


@row("TimeDistributed(model)")
def time_distributed(layer: Any, folder: Path) -> Any:
    x, y = (np.reshape(array, (2, 4, *array.shape[1:])) for array in data())
    inputs = keras.Input((4, T, I))
    return fit(keras.Model(inputs, keras.layers.TimeDistributed(model(layer))(inputs)), x, y)


@row("one layer called twice")
def shared(layer: Any, folder: Path) -> Any:
    x, attention = keras.Input((T, I)), layer(H, O)
    return fit(keras.Model(x, keras.layers.Dense(E)(attention(attention(x, x), x))))


@row("inner outputs as features")
def features(layer: Any, folder: Path) -> Any:
    made = model(layer)
    return array(keras.Model(made.inputs, made.layers[-2].output)(data()[0]))


@row("summary, count_params")
def summary(layer: Any, folder: Path) -> Any:
    text, made = io.StringIO(), model(layer)
    with contextlib.redirect_stdout(text):
        made.summary(expand_nested=True, print_fn=lambda line, **_: text.write(line))
    must("Total params" in text.getvalue(), "the summary has no total")
    return np.array(float(made.count_params()))


@row("plot_model (DOT)", needs={"pydot": "test"})
def plot(layer: Any, folder: Path) -> Any:
    dot = keras.utils.model_to_dot(model(layer), show_shapes=True, expand_nested=True).to_string()
    must("MultiHeadAttention" in dot, "the layer is not in the graph")
    return np.array(dot.count("->"))


@row("unknown lengths (None)")
def unknown_lengths(layer: Any, folder: Path) -> Any:
    made = model(layer, length=None)
    return [*fit(made), array(made(data()[0][:, :2]))]


@row("unknown batch sizes: predict, evaluate")
def batches(layer: Any, folder: Path) -> Any:
    made, (x, y) = model(layer), data()
    made.compile(loss="mse", jit_compile=False)
    return [made.predict(x, batch_size=3, verbose=0), np.array(made.evaluate(x, y, batch_size=5, verbose=0))]


@row("Embedding(mask_zero=True)")
def embedding(layer: Any, folder: Path) -> Any:
    tokens = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(WORDS, I, mask_zero=True)(tokens)
    losses, outputs = fit(keras.Model(tokens, keras.layers.Dense(E)(layer(H, O)(x, x))), ids())
    return [losses, outputs[ids() != 0]]  # the rows of padding mean nothing


@row("Masking")
def masking(layer: Any, folder: Path) -> Any:
    inputs = keras.Input((T, I))
    x = keras.layers.Masking()(inputs)
    made = keras.Model(inputs, keras.layers.Dense(E)(layer(H, O)(x, x)))
    losses, outputs = fit(made, data()[0] * (ids() != 0)[..., None])
    return [losses, outputs[ids() != 0]]


@row("attention_mask, use_causal_mask, scores")
def masks(layer: Any, folder: Path) -> Any:
    query, mask = keras.Input((T, I)), keras.Input((T, T), dtype="bool")
    options = {"attention_mask": mask, "use_causal_mask": True, "return_attention_scores": True}
    made = keras.Model([query, mask], layer(H, O)(query, query, **options))
    given = np.random.default_rng(2).random((B, T, T)) > 0.5
    return [array(x) for x in made([data()[0], given | np.eye(T, dtype=bool)])]


@row("cross-attention: other lengths and widths")
def cross(layer: Any, folder: Path) -> Any:
    query, value = keras.Input((T, I)), keras.Input((S, 9))
    made = keras.Model([query, value], keras.layers.Dense(E)(layer(H, O, value_dim=4)(query, value)))
    return fit(made, [data()[0], np.random.default_rng(3).normal(size=(B, S, 9)).astype("float32")])


@row("attention_axes")
def axes(layer: Any, folder: Path) -> Any:
    x = np.random.default_rng(4).normal(size=(2, 3, T, I)).astype("float32")
    return [array(layer(H, O, attention_axes=axes)(x, x)) for axes in ((1,), (2,), (1, 2))]


@row("flash_attention=True", JAX, TORCH)
def flash(layer: Any, folder: Path) -> Any:
    x = data()[0]
    return array(layer(H, O, flash_attention=True)(x, x))


@row("keras.config.enable_flash_attention()", TENSORFLOW)
def global_flash(layer: Any, folder: Path) -> Any:
    keras.config.enable_flash_attention()
    try:
        return fit(model(layer))
    finally:
        keras.config.disable_flash_attention()


@row("tf.data, padded_batch", TENSORFLOW)
def tf_data(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    def rows() -> Any:
        for tokens in ids():
            yield tokens[tokens != 0], [float(tokens.sum())]

    signature = tf.TensorSpec((None,), "int32"), tf.TensorSpec((1,), "float32")
    batches = tf.data.Dataset.from_generator(rows, output_signature=signature).padded_batch(3, ((None,), (1,)))
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(WORDS, I, mask_zero=True)(tokens)
    made = keras.Model(tokens, keras.layers.Dense(1)(keras.layers.GlobalAveragePooling1D()(layer(H, O)(x, x))))
    made.compile("sgd", "mse")
    return np.array(made.fit(batches.prefetch(2), epochs=1, verbose=0).history["loss"])


@row("torch DataLoader", TORCH)
def data_loader(layer: Any, folder: Path) -> Any:
    import torch

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*map(torch.tensor, data())), batch_size=4)
    made = model(layer)
    made.compile("sgd", "mse")
    return np.array(made.fit(loader, epochs=2, verbose=0).history["loss"])


@row("Bidirectional(LSTM), Conv1D and attention")
def mixed_layers(layer: Any, folder: Path) -> Any:
    inputs = keras.Input((T, I))
    x = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))(inputs)
    x = keras.layers.Add()([x, layer(H, O)(x, keras.layers.Conv1D(5, 3, padding="same")(inputs))])
    return fit(keras.Model(inputs, keras.layers.Dense(E)(keras.layers.LayerNormalization()(x))))


ROWS = (
    functional,
    subclassed,
    sequential,
    time_distributed,
    shared,
    mixed_layers,
    features,
    summary,
    plot,
    unknown_lengths,
    batches,
    cross,
    masks,
    embedding,
    masking,
    axes,
    flash,
    global_flash,
    tf_data,
    data_loader,
)
