"""Multi-head attention on Keras 3 that can be read, trusted and dropped in for the built-in layer.

`import kmha` is cheap, because each public name is imported when it is first used. As soon as Keras itself is imported,
kmha registers its layers with Keras, so that saved models load without `custom_objects`.
"""

import importlib
from typing import TYPE_CHECKING, Any

import wrapt

from kmha import lazy

if TYPE_CHECKING:
    from kmha import distribution, interchange, layers, show, translation, verify
    from kmha.interchange.models import convert_model
    from kmha.layers import MultiHeadAttention
    from kmha.patch import patch_keras

__version__ = "0.1.0"
__all__ = [
    "MultiHeadAttention",
    "__version__",
    "convert_model",
    "distribution",
    "interchange",
    "layers",
    "patch_keras",
    "show",
    "translation",
    "verify",
]
lazy.attach(
    __name__,
    {
        "MultiHeadAttention": "layers",
        "convert_model": "interchange.models",
        "patch_keras": "patch",
        **dict.fromkeys(("distribution", "interchange", "layers", "show", "translation", "verify"), ""),
    },
)


@wrapt.when_imported("keras")
def _register_layers(_keras: Any) -> None:
    importlib.import_module("kmha.layers")
