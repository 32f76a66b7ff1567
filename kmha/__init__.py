"""Multi-head attention on Keras 3 that can be read, trusted and dropped in for the built-in layer.

`import kmha` imports nothing else; the names below arrive when they are first used, and the layers are registered with
Keras as soon as Keras itself is imported, so that saved models load without `custom_objects`.
"""

import importlib
from typing import TYPE_CHECKING, Any

import wrapt

if TYPE_CHECKING:
    from kmha import layers, show, translation, verify
    from kmha.interchange.models import convert_model
    from kmha.layers import MultiHeadAttention

__version__ = "0.1.0"
__all__ = ["MultiHeadAttention", "__version__", "convert_model", "layers", "show", "translation", "verify"]


def __getattr__(name: str) -> Any:
    if name == "MultiHeadAttention":
        return importlib.import_module("kmha.layers").MultiHeadAttention
    if name == "convert_model":
        return importlib.import_module("kmha.interchange.models").convert_model
    if name in __all__:
        return importlib.import_module(f"kmha.{name}")
    raise AttributeError(f"module 'kmha' has no attribute {name!r}. It has: {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@wrapt.when_imported("keras")
def _register_layers(_keras: Any) -> None:
    importlib.import_module("kmha.layers")
