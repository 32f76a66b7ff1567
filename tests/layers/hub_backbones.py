"""Build KerasHub's backbones whose attention subclasses `keras.layers.MultiHeadAttention`, and train each two steps.

`python hub_backbones.py kmha|builtin OUT.npz` makes `keras.layers.MultiHeadAttention` the layer of that name before
KerasHub is imported, and saves the backbones' outputs and losses.
"""

import sys

import keras
import numpy as np

SIZES = {"vocabulary_size": 10, "num_layers": 2, "num_heads": 2, "hidden_dim": 6, "intermediate_dim": 8}
MOONSHINE = {
    "vocabulary_size": 10,
    "filter_dim": 12,
    "encoder_num_layers": 1,
    "decoder_num_layers": 1,
    "hidden_dim": 12,
    "intermediate_dim": 16,
    "encoder_num_heads": 2,
    "decoder_num_heads": 2,
}


def backbones():
    """Return a function that makes each backbone, and its inputs."""
    import keras_hub
    from keras_hub.src.models.xlnet.xlnet_backbone import XLNetBackbone

    models, rng = keras_hub.models, np.random.default_rng(0)
    ids, mask = rng.integers(1, 10, size=(2, 5)).astype("int32"), np.array([[1, 1, 1, 0, 0], [1] * 5], "int32")
    decoder = {"decoder_token_ids": ids, "decoder_padding_mask": mask}
    tokens = {"token_ids": ids, "padding_mask": mask}
    lengths = {"max_encoder_sequence_length": 8, "max_decoder_sequence_length": 6}
    sound = {
        "encoder_input_values": rng.normal(size=(2, 2000, 1)).astype("float32"),
        "encoder_padding_mask": np.arange(2000) < np.array([[2000], [1500]]),
    }
    return {
        "whisper": (
            lambda: models.WhisperBackbone(**SIZES, **lengths, dropout=0.0),
            {"encoder_features": rng.normal(size=(2, 8, 80)).astype("float32"), **decoder},
        ),
        "moonshine": (lambda: models.MoonshineBackbone(**MOONSHINE), {**sound, **decoder}),
        "xlnet": (lambda: XLNetBackbone(**SIZES, dropout=0.0), {**tokens, "segment_ids": np.zeros_like(ids)}),
        "gpt2": (lambda: models.GPT2Backbone(**SIZES, max_sequence_length=5, dropout=0.0), tokens),
    }


def run(make, inputs):
    """Return the outputs, and the losses of two steps of gradient descent."""
    keras.utils.set_random_seed(3)
    backbone = make()
    outputs = [keras.ops.convert_to_numpy(x) for x in keras.tree.flatten(backbone(inputs))]
    model = keras.Model(backbone.input, keras.tree.flatten(backbone.output)[-1])
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    history = model.fit(inputs, np.ones_like(outputs[-1]), epochs=2, batch_size=2, verbose=0).history
    return [*outputs, np.array(history["loss"])]


if __name__ == "__main__":
    if sys.argv[1] == "kmha":
        import kmha

        keras.layers.MultiHeadAttention = kmha.MultiHeadAttention
    results = {name: run(*backbone) for name, backbone in backbones().items()}
    np.savez(sys.argv[2], **{f"{name}{n}": x for name, found in results.items() for n, x in enumerate(found)})
