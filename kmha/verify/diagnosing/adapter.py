"""The base class of the adapters, which create, build and call layers of a framework, and find their weights."""

from collections.abc import Callable, Mapping
from typing import Any


class Adapter:
    """Makes, builds and calls the layers of a framework, and finds their weights.

    Attributes:
        framework: Framework of the arrays that a call takes.
        method: Name of the method that a call runs.
        half: Whether layers compute in float16.
        epsilon: Default epsilon of the framework's `LayerNorm`.
        single: Whether a call takes inputs without a batch axis.
        calls_by_name: Whether a call names the method, because the object itself cannot be called.
        encodes: Whether the layers are embeddings, whose arrays of positions may be trained.
    """

    framework = ""
    method = "__call__"
    half = False
    epsilon = 1e-5
    single = False
    calls_by_name = False
    encodes = False

    def supplied(self, found: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of the parameters of a constructor or a call for which the adapter has values."""
        return frozenset()

    def configured(self, layer: Any) -> dict[str, Any] | None:
        """Return the constructor's arguments of a module without parameters, or `None` if it has parameters."""
        return None

    def entry(self, layer: Any) -> Callable[..., Any]:
        """Return what a call runs: the layer, or its method."""
        called: Callable[..., Any] = getattr(layer, self.method) if self.calls_by_name else layer
        return called

    def is_weightless(self, layer: Any) -> bool:
        """Return whether a layer has no weights, and no call will make any."""
        return False

    def weights_dtype(self, layer: Any) -> str:
        """Return the dtype of inputs with which a script calls a built layer: that of its weights, if it matters."""
        return "float64"

    def has_weights(self, layer: Any) -> bool:
        """Return whether a layer of a framework has weights, or a call will make them."""
        return False

    @property
    def base(self) -> type:
        """The class of a framework's layers that hold other layers."""
        return object
