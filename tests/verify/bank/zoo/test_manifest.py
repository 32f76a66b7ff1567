import collections
import inspect

import numpy as np
import pytest

from kmha.verify.bank.zoo.entry import HELD_OUT, KINDS, TUNED
from kmha.verify.bank.zoo.manifest import ENTRIES, PACKAGES, how_to_install, missing

# Arguments of constructors and calls of torch modules, by name. An argument with a default is left out.
SIZES = dict.fromkeys("dim d_model embed_dim embedding_dim hidden_size query_dim n_feat size d_embedding".split(), 12)
SIZES |= dict.fromkeys("embed_dim embedding_size embedding_dim".split(), 12)
SIZES |= dict.fromkeys("num_heads n_heads heads nhead n_head h".split(), 3)
SIZES |= dict.fromkeys("d_k d_v head_dim".split(), 4)
SIZES |= dict.fromkeys("mlp_dim intermediate_size".split(), 20) | {"n_vocab": 17, "max_seq_len": 64}
SIZES |= dict.fromkeys("dropout dropout_rate dropout_prob hidden_dropout_prob attn_dropout_prob".split(), 0.0)
SIZES |= {"hidden_act": "relu", "layer_norm_eps": 1e-5, "depth_att": 12, "depth_out": 12, "depth_key_value": 12}


def required(function):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.default is each.empty and each.kind not in kinds]


def torch_call(entry, made):
    """Call a torch module or function with random inputs for its required arguments."""
    import torch

    torch.manual_seed(0)
    if isinstance(made, type):
        made = made(**{name: SIZES[name] for name in required(made) if name not in entry.options})
    layer = made.eval() if isinstance(made, torch.nn.Module) else made
    return layer
