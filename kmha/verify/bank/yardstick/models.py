"""Small Hugging Face models, built from configurations without pretrained weights."""

import importlib
import re
from typing import Any

# Some faults show only after 64 positions.
HEADS, LAYERS, LENGTH, VOCABULARY = 3, 2, 70, 97


# The models by name: the configuration, the class, the scope of the faults that DEForm means for it, and settings.
MODELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "BERT": (
        "BertConfig",
        "BertForSequenceClassification",
        "encoder",
        {"hidden_size": 24, "intermediate_size": 37, "max_position_embeddings": 300, "num_labels": 5},
    ),
    "OPT": (
        "OPTConfig",
        "OPTForCausalLM",
        "decoder",
        {"hidden_size": 24, "word_embed_proj_dim": 24, "ffn_dim": 37, "max_position_embeddings": 300},
    ),
    "GPT-2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        "decoder",
        {"n_embd": 24, "n_inner": 37, "n_positions": 300, "bos_token_id": 0, "eos_token_id": 0},
    ),
}

# The component of a module, by the first pattern that its path matches.
_COMPONENTS = (
    ("positional", r"position|wpe"),
    ("segment", r"token_type"),
    ("embedding", r"word_embeddings|embed_tokens|wte"),
    ("output", r"classifier|lm_head"),
    ("layernorm", r"norm|\.ln_"),
    ("qkv", r"\.query$|\.key$|\.value$|[qkv]_proj$|c_attn$"),
    ("merge", r"attention\.output\.dense|attn\.(out_proj|c_proj)"),
    ("attention", r"attention|attn"),
    ("ffn", r"intermediate|output\.dense|fc[12]$|mlp|activation_fn"),
    ("block", r"\.(layer|layers|h)\.\d+$"),
)


def component(path: str) -> str:
    """Return the component that a module belongs to, or "model" for a container of blocks.

    >>> component("bert.encoder.layer.0.attention.self.query"), component("transformer.h.1.ln_1")
    ('qkv', 'layernorm')
    """
    return next((name for name, pattern in _COMPONENTS if re.search(pattern, path.lower())), "model")


def built(name: str) -> Any:
    """Return a model with random weights, whose activations are modules, ready for inference."""
    import torch

    transformers: Any = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()  # names that it deprecates are DEForm's
    config, model_class, scope, settings = MODELS[name]
    settings = {**settings, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY}
    settings |= {"tie_word_embeddings": False} if scope == "decoder" else {}
    torch.manual_seed(0)
    made = getattr(transformers, config)(**settings, attn_implementation="eager")
    model = getattr(transformers, model_class)(made).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # no weight is zero or one, so that each fault shows
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def inputs(seed: int = 0) -> tuple[Any, Any]:
    """Return token ids (B, T), and an attention mask (B, T) with padding at the end of two items."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (4, LENGTH), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, LENGTH - 4 :], mask[2, LENGTH - 9 :] = 0, 0
    return ids, mask
