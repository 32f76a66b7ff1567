"""`keras.layers.MultiHeadAttention` replaced by kmha's layer, for code that cannot be edited.

`python -m kmha.patch script.py` runs a script with the replacement, and `python -m kmha.patch -m module` runs a module.
"""

import contextlib
import importlib
import os
import runpy
import sys
from collections.abc import Iterator
from typing import Any

_USAGE = """Usage: python -m kmha.patch SCRIPT [ARGUMENT]…
       python -m kmha.patch -m MODULE [ARGUMENT]…

Run a script or a module in which keras.layers.MultiHeadAttention is kmha.MultiHeadAttention."""


@contextlib.contextmanager
def patch_keras() -> Iterator[type]:
    """Make `keras.layers.MultiHeadAttention` kmha's layer, in a `with` statement or as a decorator.

    All modules that hold the built-in layer under its own name see kmha's layer instead: `keras.layers`,
    `tf.keras.layers`, Keras' inner modules, and your own. On exit, also after an exception, they see the built-in layer
    again. These stay as they are:

    - A class that was derived from the built-in layer earlier, and a module that imported the layer by another name.
      Import the module within the `with` statement.
    - A layer that exists already, and a saved model of the built-in's layers, which loads as it was saved.
    - A name in a module that is imported within the `with` statement. It stays kmha's layer after it.

    A saved model that contains kmha's layer loads anywhere. If the layer was made inside a block of other code, such as
    `keras_hub.layers.TransformerEncoder`, load the model with the patch too, because the block makes its layers anew.

    Yields:
        The built-in layer.

    >>> import keras, kmha
    >>> with kmha.patch_keras() as builtin:
    ...     layer = keras.layers.MultiHeadAttention(num_heads=3, key_dim=5)
    >>> type(layer) is kmha.MultiHeadAttention, keras.layers.MultiHeadAttention is builtin
    (True, True)
    """
    with replaced() as builtin:
        yield builtin


@contextlib.contextmanager
def replaced(by_any_name: bool = False) -> Iterator[type]:
    """Do what `patch_keras` does. With `by_any_name`, also in modules that imported the layer by another name."""
    from kmha.layers import MultiHeadAttention
    from kmha.layers.builtin import BUILTIN

    with contextlib.suppress(ModuleNotFoundError):  # TensorFlow imports it when `tf.keras` is first used
        importlib.import_module("keras._tf_keras.keras.layers")
    names = [*_names_of(BUILTIN)]
    changed = [(namespace, name) for namespace, name in names if by_any_name or name == BUILTIN.__name__]
    try:
        for namespace, name in changed:
            namespace[name] = MultiHeadAttention
        yield BUILTIN
    finally:
        for namespace, name in changed:
            if namespace.get(name) is MultiHeadAttention:
                namespace[name] = BUILTIN


def _names_of(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield all names in modules that are bound to `value`, each with its module's namespace. kmha's are left out."""
    for module_name, module in [*sys.modules.items()]:
        namespace = getattr(module, "__dict__", None)
        if isinstance(namespace, dict) and module_name.split(".")[0] != "kmha":
            yield from ((namespace, name) for name, held in [*namespace.items()] if held is value)


def main(arguments: list[str]) -> None:
    """Run the script or module that the arguments name, as Python itself would, with the patch."""
    is_module = arguments[:1] == ["-m"]
    target = arguments[is_module:]
    if not target or target[0].startswith("-"):
        sys.exit(_USAGE)
    if not is_module and not os.path.exists(target[0]):
        sys.exit(f"There is no file {target[0]!r}.\n\n{_USAGE}")
    sys.argv = target
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(target[0]))
    with patch_keras():
        if is_module:
            runpy.run_module(target[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(target[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
