"""Small models and data that the rows share. Sizes are pairwise different: B, T, I, heads and head size."""

from typing import Any

import keras
import numpy as np
from keras import ops

B, T, S, I, H, O, E = 8, 5, 7, 6, 2, 3, 4
WORDS = 11


class FailedError(Exception):
    """A feature ran, and did not do what it is for."""


def data() -> tuple[Any, Any]:
    """Return inputs (B, T, I) and targets (B, T, E)."""
    random = np.random.default_rng(0)
    return random.normal(size=(B, T, I)).astype("float32"), random.normal(size=(B, T, E)).astype("float32")


def ids() -> Any:
    """Return token ids (B, T), padded with zeros."""
    lengths = 2 + np.arange(B)[:, None] % 4
    return (np.random.default_rng(1).integers(1, WORDS, (B, T)) * (np.arange(T) < lengths)).astype("int32")


def model(layer: Any, length: int | None = T, **arguments: Any) -> Any:
    """Return a functional model of one attention and a dense layer."""
    x = keras.Input((length, I))
    return keras.Model(x, keras.layers.Dense(E)(layer(H, O, **arguments)(x, x)))


def fit(model: Any, x: Any = None, y: Any = None, epochs: int = 2, **options: Any) -> list[Any]:
    """Train without shuffling, and return the losses and the predictions. By default, compile with Adam and no XLA."""
    given, target = data()
    x, y = given if x is None else x, target if y is None else y
    fitting = {name: options.pop(name) for name in ("callbacks",) if name in options}
    model.compile(**{"optimizer": keras.optimizers.Adam(0.01), "loss": "mse", "jit_compile": False, **options})
    losses = model.fit(x, y, epochs=epochs, batch_size=4, shuffle=False, verbose=0, **fitting).history["loss"]
    return [np.array(losses), predict(model, x)]


def predict(model: Any, x: Any = None) -> Any:
    """Return the outputs for `x`, computed outside of `predict`, so that nothing is traced."""
    return array(model(data()[0] if x is None else x, training=False))


def array(x: Any) -> Any:
    """Return a tensor as a NumPy array of float64."""
    return ops.convert_to_numpy(ops.cast(x, "float32")).astype("float64")


def finite(x: Any) -> Any:
    """Return a tensor as an array, or raise an error if an element is not finite."""
    must(bool(np.isfinite(array(x)).all()), "some numbers are not finite")
    return array(x)


def same(actual: Any, expected: Any, what: str) -> Any:
    """Return `actual`, or raise an error if it is not `expected` up to rounding."""
    off = float(np.max(np.abs(np.asarray(actual, "float64") - np.asarray(expected, "float64"))))
    if not off <= 1e-5 * max(1.0, float(np.max(np.abs(expected)))):
        raise FailedError(f"{what} gives other numbers, by {off:.1g}")
    return actual


def must(holds: bool, message: str) -> None:
    """Raise an error with the message if something does not hold."""
    if not holds:
        raise FailedError(message)
