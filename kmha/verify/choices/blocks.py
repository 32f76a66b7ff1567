"""Design choices of encoder and decoder layers."""

from typing import Any

from kmha.verify.chains.blocks import ACTIVATIONS
from kmha.verify.choices.entry import register

register("pre-norm", "norm place", "pre-norm", norm_place=lambda state, right: "before")
register("post-norm", "norm place", "post-norm", norm_place=lambda state, right: "after")


def _activation(name: str) -> Any:
    return lambda state, right: ACTIVATIONS[name]


for _name, _says in (
    ("relu", "ReLU"),
    ("gelu", "GELU"),
    ("gelu_tanh", "GELU in its tanh approximation"),
    ("silu", "SiLU"),
):
    register(f"activation-{_name}", "activation", _says, activation=_activation(_name))
