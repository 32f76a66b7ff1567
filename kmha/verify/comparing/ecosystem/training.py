"""Rows: training, and what changes how a layer trains."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from kmha.verify.comparing.ecosystem.row import JAX, TENSORFLOW, TORCH, row
from kmha.verify.comparing.ecosystem.small import E, H, I, O, T, array, data, fit, model, must, predict, same

ADAFACTOR = "it averages over the last two axes, which are others"
RELOADED = "the built-in's quantized model cannot be loaded"


@row("fit(jit_compile=True)", TENSORFLOW, JAX)
def compiled(layer: Any, folder: Path) -> Any:
    return fit(model(layer), jit_compile=True)


@row("fit(run_eagerly=True)", TENSORFLOW, JAX)
def eagerly(layer: Any, folder: Path) -> Any:
    return fit(model(layer), run_eagerly=True)


@row("steps_per_execution")
def steps(layer: Any, folder: Path) -> Any:
    return fit(model(layer), steps_per_execution=2)


@row("train_on_batch, own loop")
def own_loop(layer: Any, folder: Path) -> Any:
    made, (x, y) = model(layer), data()
    made.compile("sgd", "mse", jit_compile=False)
    return [np.array([made.train_on_batch(x, y) for _ in range(3)]), predict(made)]


@row("dropout in training")
def dropout(layer: Any, folder: Path) -> Any:
    return fit(model(layer, dropout=0.4, seed=5))


@row("gradient accumulation")
def accumulated(layer: Any, folder: Path) -> Any:
    return fit(model(layer), optimizer=keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))


@row("EMA of the weights")
def averaged(layer: Any, folder: Path) -> Any:
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=1)
    return fit(model(layer), optimizer=optimizer)


@row("gradient clipping, weight decay")
def clipped(layer: Any, folder: Path) -> Any:
    return fit(model(layer), optimizer=keras.optimizers.AdamW(0.1, global_clipnorm=0.01, weight_decay=0.1))


@row("nine more optimizers")
def optimizers(layer: Any, folder: Path) -> Any:
    names = ("SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion", "Lamb")
    return [_with(getattr(keras.optimizers, name)(0.01), layer) for name in names]


def _with(optimizer: Any, layer: Any) -> Any:
    keras.utils.set_random_seed(2)
    return fit(model(layer), optimizer=optimizer, epochs=1, run_eagerly=True)


@row("Adafactor", differs=ADAFACTOR)
def adafactor(layer: Any, folder: Path) -> Any:
    return fit(model(layer), optimizer=keras.optimizers.Adafactor(0.1))


@row("Muon")
def muon(layer: Any, folder: Path) -> Any:
    return fit(model(layer), optimizer=keras.optimizers.Muon(0.1))


@row("kernel and bias constraints")
def constraints(layer: Any, folder: Path) -> Any:
    return fit(model(layer, kernel_constraint=keras.constraints.UnitNorm(axis=0), bias_constraint="non_neg"))


@row("kernel, bias and activity regularizers")
def regularizers(layer: Any, folder: Path) -> Any:
    return fit(model(layer, kernel_regularizer="l2", bias_regularizer="l1", activity_regularizer="l2"))


@row("initializers: every shape and seed")
def initializers(layer: Any, folder: Path) -> Any:
    names = ("glorot_normal", "he_uniform", "lecun_normal", "orthogonal", "random_normal", "truncated_normal", "ones")
    return [predict(model(layer, kernel_initializer=name, bias_initializer="random_normal")) for name in names]


@row("trainable=False, fine-tuning")
def frozen(layer: Any, folder: Path) -> Any:
    made = model(layer)
    made.layers[-2].trainable = False
    before = made.layers[-2].get_weights()
    results = fit(made)
    must(all(map(np.array_equal, before, made.layers[-2].get_weights())), "the frozen layer was trained")
    return results


@row("own train_step", TENSORFLOW)
def train_step(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    class Own(keras.Model):
        def train_step(self, batch: Any) -> Any:
            x, y = batch
            with tf.GradientTape() as tape:
                loss = ops.mean(ops.square(self(x, training=True) - y))
            self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
            return {"loss": loss}

    made = model(layer)
    return fit(Own(made.inputs, made.outputs))


@row("RematScope (recomputation)")
def rematerialized(layer: Any, folder: Path) -> Any:
    with keras.RematScope(mode="list_of_layers", layer_names=["attention"]):
        made = model(layer, name="attention")
    return fit(made)


@row("LoRA: enable_lora, training, saving")
def lora(layer: Any, folder: Path) -> Any:
    made = model(layer)
    for part in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(made.layers[-2], part).enable_lora(2)
    before = predict(made)
    fit(made, epochs=1)
    must(not np.allclose(before, predict(made)), "training changed nothing")
    made.save(folder / "model.keras")
    return same(predict(keras.models.load_model(folder / "model.keras")), predict(made), "the loaded model") * 0


def _quantized(mode: Any) -> Callable[[Any, Path], Any]:
    def attempt(layer: Any, folder: Path) -> Any:
        made = model(layer)
        before = predict(made)
        made.quantize(mode)
        after = predict(made)
        must(np.max(np.abs(after - before)) < 0.3 * np.max(np.abs(before)), "the quantized model is far off")
        return after if mode == "int8" else after * 0

    return attempt


int8 = row("quantize: int8")(_quantized("int8"))
int4 = row("quantize: int4")(_quantized("int4"))
float8 = row("quantize: float8")(_quantized("float8"))


@row("quantize: int8, then save and load", differs=RELOADED)
def quantized_file(layer: Any, folder: Path) -> Any:
    made = model(layer)
    made.quantize("int8")
    made.save(folder / "model.keras")
    return same(predict(keras.models.load_model(folder / "model.keras")), predict(made), "the loaded model")


def _in_policy(policy: str) -> Callable[[Any, Path], Any]:
    def attempt(layer: Any, folder: Path) -> Any:
        keras.config.set_dtype_policy(policy)
        try:
            made = model(layer)
            must(str(made.layers[-2].compute_dtype) == policy.removeprefix("mixed_"), "another dtype is computed in")
            return fit(made)
        finally:
            keras.config.set_dtype_policy("float32")

    return attempt


float16 = row("mixed_float16, loss scaling", dtype="float16")(_in_policy("mixed_float16"))
bfloat16 = row("mixed_bfloat16", dtype="bfloat16")(_in_policy("mixed_bfloat16"))
float64 = row("float64")(_in_policy("float64"))


@row("dtype= of the layer alone", dtype="bfloat16")
def own_dtype(layer: Any, folder: Path) -> Any:
    made = model(layer, dtype="bfloat16")
    must(made.layers[-2].variable_dtype == "bfloat16", "the dtype is another")
    return predict(made)


@row("stateless_call", JAX, TENSORFLOW)
def stateless(layer: Any, folder: Path) -> Any:
    made, x = model(layer), data()[0]
    output, _ = made.stateless_call(made.trainable_variables, made.non_trainable_variables, x)
    return array(output)


@row("torch.optim, loss.backward()", TORCH)
def torch_loop(layer: Any, folder: Path) -> Any:
    import torch

    made, (x, y) = model(layer), map(torch.tensor, data())
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(made(x, training=True), y).backward()
        optimizer.step()
    return predict(made)


@row("inside a torch.nn.Module", TORCH)
def torch_module(layer: Any, folder: Path) -> Any:
    import torch

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = layer(H, O)
            self.attention.build((None, T, I), (None, T, I))
            self.dense = torch.nn.Linear(I, E)

        def forward(self, x: Any) -> Any:
            return self.attention(x, x)

    outer = Outer()
    must(sum(1 for _ in outer.attention.parameters()) == 8, "the module does not see the weights")
    return array(outer(torch.tensor(data()[0])))


ROWS = (
    compiled,
    eagerly,
    steps,
    own_loop,
    train_step,
    dropout,
    accumulated,
    averaged,
    clipped,
    optimizers,
    adafactor,
    muon,
    constraints,
    regularizers,
    initializers,
    frozen,
    rematerialized,
    lora,
    int8,
    int4,
    float8,
    quantized_file,
    float16,
    bfloat16,
    float64,
    own_dtype,
    stateless,
    torch_loop,
    torch_module,
)
