"""Weights in the layout of torch's layers, without torch."""

from typing import Any

import numpy as np

from kmha.bench.builtin_model import BlockLayers, TiedEmbedding
from kmha.bench.contenders import Arrays
from kmha.interchange import canonical
from kmha.interchange import keras as keras_layout

IN_PROJECTIONS = ("query", "key", "value")


def stacked(weights: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernels (3·H·O, I) and the biases (3·H·O,) of query, key and value, as torch packs them."""
    kernels = [weights[f"{role}/kernel"] for role in IN_PROJECTIONS]
    matrices = [kernel.transpose(0, 2, 1).reshape(-1, kernel.shape[1]) for kernel in kernels]
    return np.concatenate(matrices), np.concatenate([weights[f"{role}/bias"].reshape(-1) for role in IN_PROJECTIONS])


def state_of(embedding: TiedEmbedding, encoder: list[BlockLayers], decoder: list[BlockLayers]) -> Arrays:
    """Return the state of `kmha.bench.torch_model.TorchModel` with the weights of the model of Keras' own layers."""
    state = {
        "table": embedding.embedding.embeddings.numpy(),
        "bias": embedding.bias.numpy(),
        "encoding": np.asarray(embedding.encoding, "float32"),
    }
    for part, blocks in (("encoder", encoder), ("decoder", decoder)):
        for number, block in enumerate(blocks):
            state |= {f"{part}.{number}.{name}": array for name, array in _state_of_block(block).items()}
    return state


def _state_of_block(block: BlockLayers) -> Arrays:
    found: Arrays = {}
    for name, layer in zip(("self_attn", "multihead_attn"), block.attentions, strict=False):
        arrays = {key: variable.numpy() for key, variable in canonical.variables(layer).items()}
        weights = keras_layout.from_builtin(arrays)
        found[f"{name}.in_proj_weight"], found[f"{name}.in_proj_bias"] = stacked(weights)
        out: Any = weights["attention_output/kernel"]
        found[f"{name}.out_proj.weight"] = out.reshape(-1, out.shape[-1]).T
        found[f"{name}.out_proj.bias"] = weights["attention_output/bias"]
    named = [(f"linear{number}", layer) for number, layer in enumerate(block.dense, 1)]
    named += [(f"norm{number}", layer) for number, layer in enumerate(block.norms, 1)]
    for name, layer in named:
        weight, bias = layer.get_weights()
        found |= {f"{name}.weight": weight.T, f"{name}.bias": bias}
    return found
