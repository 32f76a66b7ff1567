"""Exported models, each run by the runtime it is exported for, give the model's own numbers."""

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.verify.tolerance import is_close

TARGETS = {
    "tensorflow": ("saved_model", "onnx", "litert", "openvino"),
    "jax": ("saved_model",),  # Keras' other exports from JAX need a converter that is not on TensorFlow's NumPy
    "torch": ("onnx", "openvino", "torch", "litert"),
}[keras.backend.backend()]
S, H, I, J, O = 5, 7, 6, 8, 4


def _saved_model(model, path, inputs):
    import tensorflow as tf

    model.export(path, verbose=False)
    loaded = tf.saved_model.load(path)
    return loaded.serve([tf.constant(x) for x in inputs])


def _onnx(model, path, inputs):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx" if keras.backend.backend() == "tensorflow" else "onnxscript")
    model.export(f"{path}.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(f"{path}.onnx")
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def _litert(model, path, inputs):
    interpreters = pytest.importorskip("ai_edge_litert.interpreter")
    if keras.backend.backend() == "torch":
        pytest.importorskip("litert_torch")  # not in the extra `export`: it asks for older packages than Jupyter
    model.export(f"{path}.tflite", format="litert", verbose=False)
    interpreter = interpreters.Interpreter(f"{path}.tflite")
    given = sorted(interpreter.get_input_details(), key=lambda detail: detail["name"])
    for detail, x in zip(given, inputs, strict=True):
        interpreter.resize_tensor_input(detail["index"], x.shape)
    interpreter.allocate_tensors()
    for detail, x in zip(given, inputs, strict=True):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    results = sorted(interpreter.get_output_details(), key=lambda detail: detail["name"])
    return [interpreter.get_tensor(detail["index"]) for detail in results]


def _openvino(model, path, inputs):
    openvino = pytest.importorskip("openvino")
    model.export(f"{path}.xml", format="openvino", verbose=False)
    compiled = openvino.compile_model(f"{path}.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    result = compiled(inputs)
    return [result[output] for output in compiled.outputs]


def _torch(model, path, inputs):
    import torch

    model.export(f"{path}.pt2", format="torch", verbose=False)
    with torch.no_grad():
        return torch.export.load(f"{path}.pt2").module()([torch.tensor(x) for x in inputs])


def _model(length, other_length):
    """Return a decoder with padding and causal masks, a gate, cross-attention, and its scores."""
    keras.utils.set_random_seed(3)
    ids, enc_output = keras.Input((length,), dtype="int32", name="a"), keras.Input((other_length, J), name="b")
    x = keras.layers.Embedding(30, I, mask_zero=True)(ids)
    x = kmha.MultiHeadAttention(H, O, use_gate=True)(x, x, use_causal_mask=True)
    output, scores = kmha.MultiHeadAttention(2, O)(x, enc_output, return_attention_scores=True)
    windowed = kmha.MultiHeadAttention(H, O, sliding_window=2)(output, output)
    return keras.Model([ids, enc_output], [windowed, scores])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the converters
@pytest.mark.parametrize("lengths", [(9, S), (None, None)], ids=["lengths known", "lengths unknown"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_exported_model_gives_the_same_numbers(target, lengths, tmp_path):
    of_torch = target == "torch" or (keras.backend.backend() == "torch" and target == "litert")
    if of_torch and lengths == (None, None):
        pytest.skip("Keras exports to torch with every unknown size set to 1, for the built-in layer too.")
    model = _model(*lengths)
    random = np.random.default_rng(0)
    batch = 1 if of_torch else 2
    ids = random.integers(1, 30, (batch, 9)).astype("int32")
    ids[:, 7:] = 0
    inputs = [ids, random.normal(size=(batch, S, J)).astype("float32")]
    expected = model.predict(inputs, verbose=0)
    found = globals()[f"_{target}"](model, str(tmp_path / "model"), inputs)
    for one, other in zip(found, expected, strict=target != "openvino"):  # OpenVINO adds inner tensors as outputs
        assert is_close(np.array(ops.convert_to_numpy(one)), other, "float32")
