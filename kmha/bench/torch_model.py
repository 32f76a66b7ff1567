"""The model made of `torch.nn.TransformerEncoderLayer` and `TransformerDecoderLayer`, run eagerly.

It runs in a process of its own (`kmha.bench.torch_process`), because torch's optimizers import `triton`, which aborts a
process that has imported TensorFlow. So this module imports neither Keras nor TensorFlow.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from kmha.bench import machine
from kmha.bench.cases import ModelRow


class TorchModel(nn.Module):
    """The model made of torch's layers.

    Args:
        row: Sizes of the model.
        epsilon: Epsilon of all layer normalizations.
        state: Arrays of the state of this module, keyed by name.
    """

    def __init__(self, row: ModelRow, epsilon: float, state: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        torch.set_num_threads(machine.cores())
        self.smoothing, self.scale = row.smoothing, row.width**0.5
        sizes = row.width, row.heads, row.feed_forward, row.rate
        options = {"layer_norm_eps": epsilon, "batch_first": True}
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(*sizes, **options) for _ in range(row.layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(*sizes, **options) for _ in range(row.layers))
        self.table, self.bias = (nn.Parameter(torch.empty(state[name].shape)) for name in ("table", "bias"))
        self.dropout = nn.Dropout(row.rate)
        self.register_buffer("encoding", torch.empty(state["encoding"].shape))
        self.load_state_dict({name: torch.tensor(array.copy()) for name, array in state.items()})
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
        logits = self(source, target).flatten(0, 1)
        return functional.cross_entropy(logits, following.flatten(), ignore_index=0, label_smoothing=self.smoothing)

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
