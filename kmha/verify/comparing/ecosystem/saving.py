"""Rows: files, configurations and copies."""

import copy
import pickle
from pathlib import Path
from typing import Any

import keras

from kmha.verify.comparing.ecosystem.row import TENSORFLOW, TORCH, row
from kmha.verify.comparing.ecosystem.small import H, O, array, data, fit, model, predict, same


def _kept(trained: Any, again: Any, what: str) -> Any:
    """Return the predictions of a model that was read again, which must be those of the trained one."""
    return same(predict(again), predict(trained), what)


def _trained(layer: Any, **arguments: Any) -> Any:
    made = model(layer, **arguments)
    fit(made, epochs=1)
    return made


@row("save and load: .keras")
def keras_file(layer: Any, folder: Path) -> Any:
    trained = _trained(layer, use_gate=True)
    trained.save(folder / "model.keras")
    return _kept(trained, keras.models.load_model(folder / "model.keras"), "the loaded model")


@row("save and load: .weights.h5")
def weights_file(layer: Any, folder: Path) -> Any:
    trained, again = _trained(layer), model(layer)
    trained.save_weights(folder / "model.weights.h5")
    again.load_weights(folder / "model.weights.h5")
    return _kept(trained, again, "the model with loaded weights")


@row("save and load: weights in shards")
def shards(layer: Any, folder: Path) -> Any:
    trained, again = _trained(layer), model(layer)
    trained.save_weights(folder / "model.weights.json", max_shard_size=1e-6)
    again.load_weights(folder / "model.weights.json")
    return _kept(trained, again, "the model with loaded weights")


@row("save and load: legacy .h5")
def legacy_file(layer: Any, folder: Path) -> Any:
    trained = _trained(layer)
    trained.save(folder / "model.h5")
    return _kept(trained, keras.models.load_model(folder / "model.h5", compile=False), "the loaded model")


@row("tf.train.Checkpoint", TENSORFLOW)
def checkpoint(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    trained, again = _trained(layer), model(layer)
    path = tf.train.Checkpoint(model=trained).save(str(folder / "checkpoint"))
    tf.train.Checkpoint(model=again).restore(path).assert_existing_objects_matched()
    return _kept(trained, again, "the restored model")


@row("torch: state_dict", TORCH)
def state_dict(layer: Any, folder: Path) -> Any:
    import torch

    x, (trained, again) = data()[0], (layer(H, O, name="attention") for _ in range(2))
    expected = array(trained(x, x))
    again.build(x.shape, x.shape)
    torch.save(trained.state_dict(), folder / "layer.pt")
    again.load_state_dict(torch.load(folder / "layer.pt"))
    return same(array(again(x, x)), expected, "the layer with loaded weights")


@row("ModelCheckpoint, BackupAndRestore")
def callbacks(layer: Any, folder: Path) -> Any:
    callbacks = [
        keras.callbacks.ModelCheckpoint(str(folder / "best.keras"), monitor="loss"),
        keras.callbacks.BackupAndRestore(str(folder / "backup")),
    ]
    trained = model(layer)
    fit(trained, callbacks=callbacks)
    return _kept(trained, keras.models.load_model(folder / "best.keras"), "the checkpoint")


@row("get_weights, set_weights")
def weights(layer: Any, folder: Path) -> Any:
    trained, again = _trained(layer), model(layer)
    again.set_weights(trained.get_weights())
    return _kept(trained, again, "the model with these weights")


@row("to_json, get_config, from_config")
def config(layer: Any, folder: Path) -> Any:
    trained = _trained(layer, dropout=0.5, use_bias=False, kernel_initializer="he_normal", output_shape=4)
    for again in (keras.models.model_from_json(trained.to_json()), type(trained).from_config(trained.get_config())):
        again.set_weights(trained.get_weights())
        _kept(trained, again, "the model from its configuration")
    return predict(trained)


@row("clone_model")
def clone(layer: Any, folder: Path) -> Any:
    trained = _trained(layer)
    again = keras.models.clone_model(trained)
    again.set_weights(trained.get_weights())
    return _kept(trained, again, "the clone")


@row("pickle, deepcopy")
def copies(layer: Any, folder: Path) -> Any:
    trained = _trained(layer)
    _kept(trained, copy.deepcopy(trained), "the copy")
    return _kept(trained, pickle.loads(pickle.dumps(trained)), "the copy")  # noqa: S301 - made a moment ago


@row("cloudpickle", needs={"cloudpickle": "test"})
def cloud(layer: Any, folder: Path) -> Any:
    import cloudpickle

    trained = _trained(layer)
    return _kept(trained, cloudpickle.loads(cloudpickle.dumps(trained)), "the copy")


@row("copies of a layer that is not built")
def unbuilt(layer: Any, folder: Path) -> Any:
    x, results = data()[0], []
    for again in (copy.deepcopy(layer(H, O)), pickle.loads(pickle.dumps(layer(H, O)))):  # noqa: S301
        keras.utils.set_random_seed(1)
        results.append(keras.ops.convert_to_numpy(again(x, x)))
    return results


@row("save and load: an attention never called")
def never_called(layer: Any, folder: Path) -> Any:
    trained = model(layer)
    trained.spare = layer(H, O)
    trained.save(folder / "model.keras")
    return _kept(trained, keras.models.load_model(folder / "model.keras"), "the loaded model")


ROWS = (
    keras_file,
    weights_file,
    shards,
    legacy_file,
    checkpoint,
    state_dict,
    callbacks,
    weights,
    config,
    clone,
    copies,
    cloud,
    unbuilt,
    never_called,
)
