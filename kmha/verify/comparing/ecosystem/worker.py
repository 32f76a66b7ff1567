"""The process that tries rows: `python -m kmha.verify.comparing.ecosystem.worker ROW:LAYER…`.

It writes a line of JSON before and after each. Whatever the libraries print goes to standard error.
"""

import contextlib
import gc
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any


def main(tasks: list[str]) -> None:
    """Try each task, such as "3:ours" or "3:builtin", and report what it gave."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    warnings.simplefilter("ignore")
    _make_devices()
    import keras

    import kmha
    from kmha.verify.comparing.ecosystem.table import ROWS

    layers = {"builtin": keras.layers.MultiHeadAttention, "ours": kmha.MultiHeadAttention}
    for task in tasks:
        print(json.dumps({"begins": task}), file=channel, flush=True)
        number, layer = task.split(":")
        said, arrays = _attempt(ROWS[int(number)], layers[layer])
        print(json.dumps({"task": task, "said": said, "arrays": arrays}), file=channel, flush=True)


def _make_devices() -> None:
    """Make two devices of the processor, where TensorFlow runs the rows."""
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        [processor] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)


def _attempt(row: Any, layer: Any) -> tuple[str, list[Any]]:
    """Return "" and the arrays as lists, or what the feature raised and no arrays."""
    import keras

    keras.backend.clear_session()  # collects all garbage, of which most time goes to what is not garbage
    gc.freeze()  # what is left now is not looked at again
    keras.utils.set_random_seed(7)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        try:
            arrays = keras.tree.flatten(row.attempt(layer, Path(folder)))
            return "", [keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")).tolist() for x in arrays]
        except Exception as error:  # whatever a feature raises is its result
            return _one_line(error), []


def _one_line(error: Exception) -> str:
    """Return the error's class and the first line of its message that says more than where it was raised."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()]
    first = next((line for line in lines if line and not line.startswith("Exception encountered when")), "")
    return f"{type(error).__name__}: {first}"[:120]


if __name__ == "__main__":
    main(sys.argv[1:])
