import io
import struct

import numpy as np
import pytest

from kmha.sandbox import worker_api
from kmha.sandbox.encoding import decode, encode


def _reply(value):
    message = encode(value)
    return struct.pack("<Q", len(message)) + message


def test_remote_function_sends_a_request(monkeypatch):
    monkeypatch.setattr(worker_api, "_connection", {})
    sent = []
    replies = _reply({"result": np.arange(3), "error": None}) + _reply({"result": None, "error": "it does not fit"})
    worker_api.connect(sent.append, io.BytesIO(replies))
    function = worker_api.remote("attend")
    assert function(2, mask=None).tolist() == [0, 1, 2]
    assert decode(sent[0]) == {"name": "attend", "args": (2,), "kwargs": {"mask": None}}
    with pytest.raises(ValueError, match="it does not fit"):
        function(3)


def test_a_figure():
    plt = pytest.importorskip("matplotlib.pyplot")
    drawn, (left, right) = plt.subplots(1, 2)
    image = left.imshow(np.arange(6.0).reshape(2, 3), vmin=-1, vmax=7)
    drawn.colorbar(image)
    left.set(title="head 0", xlabel="keys", ylabel="queries")
    right.pcolormesh(np.arange(20.0).reshape(4, 5))
    one, two = worker_api.figure(drawn)["panels"]
    plt.close(drawn)
    np.testing.assert_array_equal(one["image"], np.arange(6.0).reshape(2, 3))
    assert one["limits"] == [-1, 7]
    assert (one["title"], one["x"], one["y"]) == ("head 0", "keys", "queries")
    np.testing.assert_array_equal(two["image"], np.arange(20.0).reshape(4, 5))


@pytest.mark.parametrize("way", ["axes off", "axis hidden", "labels hidden", "transparent"])
def test_labels_that_cannot_be_seen(way):
    plt = pytest.importorskip("matplotlib.pyplot")
    drawn, axes = plt.subplots()
    axes.imshow(np.eye(2))
    axes.set(title="head 0", xlabel="keys", xticks=[0, 1], xticklabels=["a", "b"])
    if way == "axes off":
        axes.axis("off")
    elif way == "axis hidden":
        axes.xaxis.set_visible(False)
    else:
        for text in (axes.xaxis.label, *axes.get_xticklabels()):
            text.set(alpha=0.0) if way == "transparent" else text.set_visible(False)
    (found,) = worker_api.figure(drawn)["panels"]
    plt.close(drawn)
    assert found["title"] == "head 0"
    assert found["x"] == ""
    assert not any(found["x_ticks"])


def test_labels_in_other_ways():
    """A title on the left, and ticks at every number, of which matplotlib lists some outside of the image."""
    plt = pytest.importorskip("matplotlib.pyplot")
    drawn, axes = plt.subplots()
    axes.imshow(np.eye(3), cmap="twilight")
    axes.set_title("head 0", loc="left")
    axes.xaxis.set_major_locator(plt.MultipleLocator(1))
    axes.xaxis.set_major_formatter(lambda place, _: "abc"[int(place)] if 0 <= place < 3 else "")
    (found,) = worker_api.figure(drawn)["panels"]
    plt.close(drawn)
    assert found["title"] == "head 0"
    assert found["x_ticks"] == ["a", "b", "c"]
    assert found["x_places"] == [0, 1, 2]
    assert found["colors"] == "twilight, Normalize, cyclic"


@pytest.mark.parametrize("way", ["alpha", "hidden", "on each other", "tiny"])
def test_images_that_cannot_be_seen(way):
    plt = pytest.importorskip("matplotlib.pyplot")
    drawn, panels = plt.subplots(1, 2, figsize=(0.01, 0.01) if way == "tiny" else None)
    for axes in panels:
        axes.imshow(np.arange(6.0).reshape(2, 3), alpha=0.0 if way == "alpha" else None)
        axes.set_visible(way != "hidden")
        if way == "on each other":
            axes.set_position((0.1, 0.1, 0.8, 0.8))
    found = worker_api.figure(drawn)["panels"]
    plt.close(drawn)
    assert found == []


def test_images_that_touch_each_other():
    plt = pytest.importorskip("matplotlib.pyplot")
    drawn, panels = plt.subplots(1, 3, gridspec_kw={"wspace": 0})
    for axes in panels:
        axes.imshow(np.eye(2), aspect="auto")
    found = worker_api.figure(drawn)["panels"]
    plt.close(drawn)
    assert len(found) == 3


def test_what_only_looks_like_a_figure():
    """It had eight of ten points, and nothing was drawn."""
    pytest.importorskip("matplotlib")

    class Figure:
        axes = ()

    with pytest.raises(TypeError, match="expected a matplotlib figure"):
        worker_api.figure(Figure())


def test_set_weights_names_a_missing_attribute():
    class Layer:
        kernel = np.zeros((2, 3))

    with pytest.raises(AttributeError, match="cannot set `bias`: Layer has no attribute `bias`"):
        worker_api.set_weights(Layer(), {"bias": np.zeros(3)})
    with pytest.raises(ValueError, match=r"`kernel` has the shape \(2, 3\), expected \(3, 2\)"):
        worker_api.set_weights(Layer(), {"kernel": np.zeros((3, 2))})


@pytest.mark.tensorflow
def test_weights_by_paths():
    import keras

    outer = keras.Sequential([keras.layers.Dense(3)])
    outer.build((None, 2))
    outer.inner = outer.layers[0]
    worker_api.set_weights(outer, {"inner.kernel": np.full((2, 3), 2.0), "inner": [np.ones((2, 3)), np.full(3, 5.0)]})
    np.testing.assert_array_equal(outer.inner.kernel, np.ones((2, 3)))
    worker_api.set_weights(outer, {"inner.bias": np.full(3, 7.0)})
    np.testing.assert_array_equal(outer.inner.bias, np.full(3, 7.0))


@pytest.mark.tensorflow
def test_tensors():
    import keras

    found = worker_api.tensors({"array": np.ones((2, 3)), "ids": np.arange(3), "mask": np.ones(2, bool), "heads": 4})
    assert keras.backend.standardize_dtype(found["array"].dtype) == "float32"
    assert keras.backend.standardize_dtype(found["ids"].dtype) == "int64"
    assert keras.backend.standardize_dtype(found["mask"].dtype) == "bool"
    assert found["heads"] == 4


@pytest.mark.tensorflow
def test_gradients():
    """The sum of (2 a + b)² and c² has the gradients 4 (2 a + b) and 2 (2 a + b); `d` is not used."""
    rng = np.random.default_rng(3)
    given = {name: rng.normal(size=(2, 3)) for name in ("a", "b", "c", "d")}
    found = worker_api.gradients(lambda a, b, c, d: (2 * a + b, c), given, ["a", "b", "d"])
    np.testing.assert_allclose(found["a"], 4 * (2 * given["a"] + given["b"]), rtol=1e-12)
    np.testing.assert_allclose(found["b"], 2 * (2 * given["a"] + given["b"]), rtol=1e-12)
    assert found["d"] is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_new_weights():
    """Keras' own layer has right weights. It counts otherwise what glorot_uniform draws from."""
    import keras

    keras.utils.set_random_seed(1)
    inputs, equation = np.random.default_rng(0).normal(size=(2, 3, 5)), "BTI,HIO->BTHO"
    layers = [
        keras.layers.EinsumDense(equation, (None, 7, 4), bias_axes=axes, dtype=dtype, name="named")
        for axes, dtype in (("HO", "float64"), (None, "float64"), ("HO", "mixed_float16"))
    ]
    found = worker_api.new_weights(layers, inputs, equation, (7, 5, 4))
    assert found["order"] == [found["kernel"], found["bias"]] == [(7, 5, 4), (7, 4)]
    assert (found["trainable"], found["name"]) == ([2, 1], "named")
    assert found["dtypes"] == {"float64": ["float64"] * 3, "mixed_float16": ["float32", "float32", "float16"]}
    assert not np.any(found["bias at the start"])
    assert found["without a bias"] is None
    said = {name: bool(each) for name, each in found.items() if name.startswith(("kernel ", "every", "the sum"))}
    assert [name for name, each in said.items() if not each] == [
        "kernel as from glorot_uniform",
        "kernel is far larger",
    ]
    assert len(said) == 6
    large = 9 * np.abs(layers[0].kernel)
    for layer in layers:
        layer.kernel.assign(large)
    found = worker_api.new_weights(layers, inputs, equation, (7, 4, 5))
    assert not any(found[name] for name in ("kernel has both signs at the start", "the sum without a bias"))
    assert not found["every kernel starts from its own numbers"]
    assert found["kernel is far larger"]
