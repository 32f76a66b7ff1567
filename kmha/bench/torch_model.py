"""The model made of `torch.nn.TransformerEncoderLayer` and `TransformerDecoderLayer`, run eagerly."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from kmha.bench import machine
from kmha.bench.builtin_model import EPSILON, BlockLayers, TiedEmbedding
from kmha.bench.cases import ModelRow
from kmha.bench.torch_attention import stacked
from kmha.core import positions
from kmha.interchange import canonical
from kmha.interchange import keras as keras_layout


class TorchModel(nn.Module):
    """The model made of torch's layers, with the weights of the model made of Keras' own layers."""

    def __init__(
        self, row: ModelRow, embedding: TiedEmbedding, encoder: list[BlockLayers], decoder: list[BlockLayers]
    ) -> None:
        super().__init__()
        torch.set_num_threads(machine.cores())
        self.smoothing, self.scale = row.smoothing, row.width**0.5
        sizes = row.width, row.heads, row.feed_forward, row.rate
        options = {"layer_norm_eps": EPSILON, "batch_first": True}
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(*sizes, **options) for _ in encoder)
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(*sizes, **options) for _ in decoder)
        table, bias = embedding.embedding.embeddings.numpy(), embedding.bias.numpy()
        self.table, self.bias = (nn.Parameter(torch.tensor(array)) for array in (table, bias))
        self.dropout = nn.Dropout(row.rate)
        encoding = np.asarray(positions.sinusoidal(max(row.source, row.length), row.width))
        self.register_buffer("encoding", torch.tensor(encoding.astype("float32")))
        for layer, block in zip((*self.encoder, *self.decoder), (*encoder, *decoder), strict=True):
            _copy(layer, block)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, eps=1e-7)

    def forward(self, source: Any, target: Any) -> Any:
        """Return the logits (B, T, V) for source ids and target ids."""
        hidden, x = source == 0, self._embed(source)  # in torch's masks, True means hidden
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=hidden)
        memory, x = x, self._embed(target)
        masks = {
            "tgt_mask": torch.ones(2 * target.shape[1:], dtype=torch.bool).triu(1),
            "tgt_key_padding_mask": target == 0,
            "memory_key_padding_mask": hidden,
        }
        for layer in self.decoder:
            x = layer(x, memory, **masks, tgt_is_causal=True)
        return x @ self.table.T + self.bias

    def loss(self, source: Any, target: Any, following: Any) -> Any:
        """Return the mean loss per token, without padding."""
        logits, options = self(source, target), {"ignore_index": 0, "label_smoothing": self.smoothing}
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten(), **options)

    def step(self, *batch: Any) -> float:
        """Make one step of the optimizer on a batch, and return the loss."""
        self.train()
        self.optimizer.zero_grad()
        loss = self.loss(*batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def evaluate(self, *batch: Any) -> float:
        """Return the loss of a batch without dropout."""
        self.eval()
        with torch.no_grad():
            return self.loss(*batch).item()

    def _embed(self, ids: Any) -> Any:
        x = self.scale * functional.embedding(ids, self.table) + self.encoding[: ids.shape[1]]
        return self.dropout(x)


def batch(*arrays: np.ndarray) -> list[Any]:
    """Return arrays of ids as torch tensors."""
    return [torch.tensor(array, dtype=torch.long) for array in arrays]


def _copy(layer: Any, block: BlockLayers) -> None:
    attentions = [layer.self_attn] + ([layer.multihead_attn] if len(block.attentions) > 1 else [])
    for theirs, ours in zip(attentions, block.attentions, strict=True):
        arrays = {name: variable.numpy() for name, variable in canonical.variables(ours).items()}
        weights = keras_layout.from_builtin(arrays)
        kernels, biases = stacked(weights)
        out = weights["attention_output/kernel"]
        _set(theirs.in_proj_weight, kernels)
        _set(theirs.in_proj_bias, biases)
        _set(theirs.out_proj.weight, out.reshape(-1, out.shape[-1]).T)
        _set(theirs.out_proj.bias, weights["attention_output/bias"])
    dense = zip((layer.linear1, layer.linear2), block.dense, strict=True)
    norms = zip([getattr(layer, f"norm{n + 1}") for n in range(len(block.norms))], block.norms, strict=True)
    for theirs, ours in (*dense, *norms):
        weight, bias = ours.get_weights()
        _set(theirs.weight, weight.T)
        _set(theirs.bias, bias)


def _set(parameter: Any, array: np.ndarray) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(array.copy()))
