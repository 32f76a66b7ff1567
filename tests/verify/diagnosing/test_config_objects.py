import dataclasses

import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import config_objects
from kmha.verify.diagnosing.calling import constructor


class _Attention(keras.layers.Layer):
    """Right causal self-attention with one packed kernel, as in small language models."""

    def __init__(self, config):
        super().__init__()
        self.c_attn = keras.layers.Dense(3 * config.n_embd, use_bias=config.bias)
        self.c_proj = keras.layers.Dense(config.n_embd)
        self.n_head, self.flash = config.n_head, getattr(config, "flash", False)

    def call(self, x):
        batch, rows, width = x.shape
        q, k, v = (
            keras.ops.transpose(keras.ops.reshape(each, (batch, rows, self.n_head, width // self.n_head)), (0, 2, 1, 3))
            for each in keras.ops.split(self.c_attn(x), 3, axis=-1)
        )
        logits = q @ keras.ops.swapaxes(k, -1, -2) / (width // self.n_head) ** 0.5
        logits = keras.ops.where(np.tri(rows, dtype=bool), logits, -1e30)
        mixed = keras.ops.softmax(logits) @ v
        return self.c_proj(keras.ops.reshape(keras.ops.transpose(mixed, (0, 2, 1, 3)), (batch, rows, width)))


@dataclasses.dataclass
class _Config:
    n_head: int = 4
    n_embd: int = 32
    intermediate_size: int = 99
    bias: bool = True


class _Annotated(_Attention):
    def __init__(self, settings: _Config):
        assert isinstance(settings, _Config | config_objects.Watched)
        super().__init__(settings)


class _OfAKind(_Attention):
    """Accepts only some texts for a field that no default gives."""

    def __init__(self, config):
        if config.kind not in ("dense", "sparse"):
            raise ValueError(config.kind)
        super().__init__(config)


@dataclasses.dataclass
class _AllRequired:
    n_head: int
    n_embd: int
    bias: bool
    kind: str


class _OfARequiredKind(_Attention):
    """Its configuration has no defaults, so it cannot be made in part."""

    def __init__(self, settings: _AllRequired):
        if settings.kind != "dense":
            raise ValueError(settings.kind)
        super().__init__(settings)


class _WithOptions(_Attention):
    """Compares fields with texts that change the attention, but accepts others."""

    def __init__(self, config):
        super().__init__(config)
        self.scaled = config.scale_mode != "none"
        if config.position_embedding_type == "relative_key":
            self.positions = keras.layers.Dense(config.n_embd)

    def call(self, x):
        return super().call(x if self.scaled else 2 * x)


@pytest.mark.parametrize("layer", [_Attention, _Annotated, _OfAKind, _OfARequiredKind, _WithOptions])
def test_a_layer_with_a_configuration_object(layer):
    found = diagnose(layer)
    assert found.right
    assert found.convention.causal
    assert found.candidate.chain == "attention"


def test_a_field_may_be_given():
    assert diagnose(_Attention, arguments={"config.n_head": 5}).sizes.heads == 5
    assert diagnose(_Attention, arguments={"n_head": 5}).sizes.heads == 5


def test_the_fields_that_a_constructor_reads():
    written = constructor(_Attention)
    found = config_objects.expanded(written, lambda config: _Attention(config))
    assert list(found) == ["config.n_embd", "config.bias", "config.n_head"]
    made = config_objects.folded({"config.n_head": 2, "config.n_embd": 6}, written)["config"]
    assert (made.n_head, made["n_embd"], getattr(made, "colour", 3)) == (2, 6, 3)


def test_the_script_of_a_layer_with_a_configuration_object_imports_it(candidate):
    found = diagnose(candidate("torch_canonical", "CausalSelfAttention"), arguments={"wrong": "no scale"})
    for code in (found.code(), found.short_code()):
        assert "SimpleNamespace(" in code
        assert code.startswith("from types import SimpleNamespace\n")
