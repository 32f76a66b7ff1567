"""Rows: exported models, each run by its own runtime."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

from kmha.verify.comparing.ecosystem.row import JAX, TENSORFLOW, TORCH, row
from kmha.verify.comparing.ecosystem.small import H, O, data, fit, model, predict, same


def _exported(layer: Any, path: Path, format: str) -> tuple[Any, Any]:
    """Train a model, export it, and return its predictions and its input."""
    trained = model(layer, use_gate=keras.backend.backend() == TENSORFLOW)
    fit(trained, epochs=1)
    trained.export(str(path), format=format, verbose=False)
    return predict(trained), data()[0]


@row("export: SavedModel", TENSORFLOW, JAX)
def saved_model(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    expected, x = _exported(layer, folder / "model", "tf_saved_model")
    loaded = tf.saved_model.load(str(folder / "model"))
    return same(loaded.serve(tf.constant(x)), expected, "the SavedModel")


@row("keras.layers.TFSMLayer", TENSORFLOW)
def saved_model_layer(layer: Any, folder: Path) -> Any:
    expected, x = _exported(layer, folder / "model", "tf_saved_model")
    again = keras.layers.TFSMLayer(str(folder / "model"), call_endpoint="serve")
    return same(again(x), expected, "the layer of the SavedModel")


@row("export: ONNX", TENSORFLOW, needs={"onnxruntime": "export", "tf2onnx": "export"})
def onnx(layer: Any, folder: Path) -> Any:
    return _onnx(layer, folder)


@row("export: ONNX", TORCH, needs={"onnxruntime": "export", "onnxscript": "export"})
def onnx_of_torch(layer: Any, folder: Path) -> Any:
    return _onnx(layer, folder)


def _onnx(layer: Any, folder: Path) -> Any:
    import onnxruntime

    expected, x = _exported(layer, folder / "model.onnx", "onnx")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    return same(session.run(None, {session.get_inputs()[0].name: x})[0], expected, "ONNX Runtime")


@row("export: LiteRT", TENSORFLOW, needs={"ai_edge_litert": "export"})
def litert(layer: Any, folder: Path) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    expected, x = _exported(layer, folder / "model.tflite", "litert")
    interpreter = Interpreter(str(folder / "model.tflite"))
    [given], [result] = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(given["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], x)
    interpreter.invoke()
    return same(interpreter.get_tensor(result["index"]), expected, "LiteRT")


@row("export: OpenVINO", TENSORFLOW, TORCH, needs={"openvino": "export"})
def openvino(layer: Any, folder: Path) -> Any:
    import openvino

    expected, x = _exported(layer, folder / "model.xml", "openvino")
    compiled = openvino.compile_model(str(folder / "model.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return same(compiled([x])[0], expected, "OpenVINO")


@row("export: torch.export", TORCH)
def torch_export(layer: Any, folder: Path) -> Any:
    import torch

    made, x = model(layer), data()[0][:1]  # Keras exports a batch of unknown size as a batch of 1
    made.export(str(folder / "model.pt2"), format="torch", verbose=False)
    with torch.no_grad():
        [found] = keras.tree.flatten(torch.export.load(folder / "model.pt2").module()(torch.tensor(x)))
    return same(found, predict(made, x), "the exported program")


@row("torch.jit.trace", TORCH)
def torch_trace(layer: Any, folder: Path) -> Any:
    import torch

    made, x = model(layer).eval(), torch.tensor(data()[0])
    with torch.no_grad():
        return same(torch.jit.trace(made, x)(x).detach(), predict(made), "the traced model")


@row("jax.export", JAX)
def jax_export(layer: Any, folder: Path) -> Any:
    import jax

    made, x = model(layer), data()[0]
    program = jax.export.export(jax.jit(made))(jax.ShapeDtypeStruct(x.shape, "float32"))
    again = jax.export.deserialize(program.serialize())
    return same(again.call(x), predict(made), "the exported program")


@row("tf.saved_model.save of a layer in a tf.Module", TENSORFLOW)
def module(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    x, attention = tf.constant(data()[0]), layer(H, O)
    attention(x, x)
    held = tf.Module()
    held.attention = attention
    held.serve = tf.function(lambda x: attention(x, x), [tf.TensorSpec((None, None, x.shape[-1]))])
    tf.saved_model.save(held, str(folder / "module"))
    loaded = tf.saved_model.load(str(folder / "module"))
    return same(loaded.serve(x), np.array(attention(x, x)), "the SavedModel")


ROWS = (
    saved_model,
    saved_model_layer,
    module,
    onnx,
    onnx_of_torch,
    litert,
    openvino,
    torch_export,
    torch_trace,
    jax_export,
)
