"""Entries of torch packages for language, speech and proteins, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake: scores that decay with
the distance (the attention of `eduktm` and `pykt-toolkit`); keys of edges (`graph-transformer-pytorch`); sinusoids of
other wavelengths (`depthcharge-ms`), or of positions that are counted from the first visit (`cehrbert`); a gated
recurrent unit in place of the residual (the layers of `gtrxl-torch`); normalized queries and keys
(`switch-transformers`); a bias that the cross-attention ignores (`simpler-flash`, which also imports `torchvision`);
positions that start at 1, with other angles (`parseridge`). `bark` imports what imports `torchaudio`, and `rudalle`,
`llm-foundry` and `stylizing-vit` need what imports `torchvision`. `transformermath`, `vima`, `ai2-olmo-core`,
`torchtitan`, `swissarmytransformer` and `p3gpt` import packages that no other entry needs, `willminds` reads a file at
its import, and `rca-arch` fails there. `torchdrug`, `spectrans`, `mmdit-pytorch` and `canvit-pytorch` need another
Python. No attention of their own was found in `amber-embeddings`, `antibody-transformer`, `chess-transformer`,
`clokai`, `deeppavlov`, `machine-translation`, `next-word-prediction`, `smol-vllm`, `simplegpt` and
`tnsa-stable-curiosity`. The masks of `stok` say what is hidden, those of `noflash-attention` what is attended to, and
those of `open-mythos`, `omgformer` and `pascal-attn` are added to the scores. The keys of `reasoning-from-scratch` are
hidden by a mask that its model makes, with the rotary angles.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import (
    HEADS,
    INNER,
    LENGTH,
    SIZE,
    VOCABULARY,
    WIDTH,
    called,
    config,
    of,
    with_forward,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

FIVE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "n_heads": HEADS,
    "head_dim": SIZE,
    "mlp_hidden_dim": INNER,
    "attention_type": "mha",
    "max_seq_len": LENGTH,
}
OMG: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_heads": HEADS,
    "max_length": LENGTH,
    "attention_dropout": 0.0,
}
MYTHOS: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "dim": WIDTH,
    "n_heads": HEADS,
    "max_seq_len": LENGTH,
    "attn_type": "gqa",
    "dropout": 0.0,
}
QORVA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_dim": WIDTH,
    "num_heads": HEADS,
    "head_dim": SIZE,
    "context_length": LENGTH,
    "window_size": -1,
}
QWEN: dict[str, Any] = {
    "emb_dim": WIDTH,
    "hidden_dim": INNER,
    "n_heads": HEADS,
    "n_kv_groups": HEADS,
    "head_dim": SIZE,
    "qk_norm": False,
    "dtype": None,
}


def _stok_attention(found: Any) -> Any:
    """Make an attention of stok with its rotary positions."""
    from stok.models.rope import RotaryEmbedding

    return found(WIDTH, HEADS, 0.0, RotaryEmbedding())


def _stok_block(found: Any) -> Any:
    """Make a block of stok with its rotary positions."""
    from stok.models.rope import RotaryEmbedding

    return found(WIDTH, HEADS, 0.0, 0.0, RotaryEmbedding())


def _five(found: Any) -> Any:
    """Make a layer of fiveattn, and call it with rotary positions, as its model does."""
    from fiveattn.model import RotaryEmbedding

    rotary = RotaryEmbedding(SIZE, LENGTH)
    layer = found(config("fiveattn.config:ModelConfig", **FIVE))
    return with_forward(layer, lambda self, x: self.layer(x, rotary))


def _omg(**more: Any) -> Callable[[Any], Any]:
    """Return a function that makes an attention of omgformer."""
    return lambda found: found(config("omgformer:OMGConfig", **OMG, **more))


def _qorva(heads_of_keys: int) -> Callable[[Any], Any]:
    """Return a function that makes an attention of qorva."""
    return lambda found: found(config("qorva.model.config:QorvaConfig", **QORVA, num_kv_heads=heads_of_keys))


def _mythos(heads_of_keys: int) -> Callable[[Any], Any]:
    """Return a function that makes a layer of open-mythos, and calls it with rotary angles, as its model does."""

    def make(found: Any) -> Any:
        from open_mythos.main import precompute_rope_freqs

        def call(layer: Any, x: Any, mask: Any) -> Any:
            return layer(x, precompute_rope_freqs(SIZE, x.shape[1]), mask)

        return called(found(config("open_mythos.main:MythosConfig", **MYTHOS, n_kv_heads=heads_of_keys)), call)

    return make


def _qwen(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that makes a layer of reasoning-from-scratch, and calls it with angles, as its model does."""

    def made(found: Any) -> Any:
        import torch
        from reasoning_from_scratch.qwen3 import compute_rope_params

        def call(layer: Any, x: Any, mask: Any) -> Any:
            if mask is None:
                mask = torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool)
            return layer(x, mask, *compute_rope_params(SIZE, context_length=x.shape[1]))[0]

        return called(make(found), call)

    return made


_beat = of("beat-this", "beat_this.model.roformer:")
_compare = of("fiveattn", "fiveattn.model:")
_loop = of("rlt-pytorch", "RLT.RLT:")
_music = of("muscriptor", "muscriptor.modules.transformer:")
_myth = of("open-mythos", "open_mythos.main:")
_omgformer = of("omgformer", "omgformer.")
_reason = of("reasoning-from-scratch", "reasoning_from_scratch.qwen3:")
_token = of("stok", "stok.models.")
_trace = of("pykt-toolkit", "pykt.models.akt:")
_window = of("qorva", "qorva.model.architecture:")

ENTRIES: tuple[Entry, ...] = (
    _beat("Attention", "attention", args(WIDTH, HEADS, SIZE, gating=False)),
    _beat(
        "Transformer",
        "encoder",
        args(dim=WIDTH, depth=1, dim_head=SIZE, heads=HEADS, norm_output=False, gating=False),
        norm="pre",
    ),
    Entry("brsx", "brsx.hybrid.brsx_blocks:TransformerBlock", "encoder", "torch", args(WIDTH, HEADS, LENGTH), "pre"),
    _compare("MultiHeadAttention", "attention", _five),
    _compare("TransformerBlock", "encoder", _five, norm="pre"),
    _compare("RotaryEmbedding", "embedding", args(SIZE, LENGTH)),
    _compare("apply_rotary_pos_emb", "embedding"),
    Entry("gtrxl-torch", "gtrxl_torch.gtrxl_torch:PositionalEncoding", "embedding", "torch", args(WIDTH, 0.0, LENGTH)),
    _music("StreamingMultiheadAttention", "attention", args(WIDTH, HEADS)),
    _music("StreamingTransformerLayer", "encoder", args(WIDTH, HEADS, INNER), norm="pre"),
    Entry("noflash-attention", "noflash_attention.patch:chunked_sdpa", "attention", "torch", mask="attends"),
    _omgformer("attention:GroupedQueryAttention", "attention", _omg(num_kv_heads=HEADS), mask="adds"),
    _omgformer("attention:GroupedQueryAttention", "attention", _omg(num_kv_heads=1), mask="adds"),
    _omgformer("attention:RotaryEmbedding", "embedding", args(SIZE, LENGTH)),
    _omgformer("layers:LearnedPositionalEmbedding", "embedding", args(LENGTH, WIDTH)),
    _myth("GQAttention", "attention", _mythos(HEADS), mask="adds"),
    _myth("GQAttention", "attention", _mythos(1), mask="adds"),
    _myth("TransformerBlock", "encoder", _mythos(HEADS), norm="pre", mask="adds"),
    _myth("precompute_rope_freqs", "embedding"),
    _myth("apply_rope", "embedding"),
    Entry("pascal-attn", "pascal_attn.functional:tiled_attention", "attention", "torch", mask="adds"),
    _trace("CosinePositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _trace("LearnablePositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _window("GQAttention", "attention", _qorva(HEADS)),
    _window("GQAttention", "attention", _qorva(1)),
    _window("RotaryEmbedding", "embedding", args(SIZE, LENGTH)),
    _reason("GroupedQueryAttention", "attention", _qwen(args(WIDTH, HEADS, HEADS)), mask="hides"),
    _reason("GroupedQueryAttention", "attention", _qwen(args(WIDTH, HEADS, 1)), mask="hides"),
    _reason("TransformerBlock", "encoder", _qwen(args(QWEN)), norm="pre", mask="hides"),
    _reason("compute_rope_params", "embedding"),
    _reason("apply_rope", "embedding"),
    _loop("Attention", "attention", args(WIDTH, SIZE, HEADS)),
    _loop("Attention", "attention", args(WIDTH, SIZE, HEADS, causal=False)),
    _loop("Attention", "attention", args(WIDTH, SIZE, HEADS, kv_heads=1)),
    _token("attention:MultiheadAttention", "attention", _stok_attention, mask="hides"),
    _token("blocks:EncoderBlock", "encoder", _stok_block, norm="pre", mask="hides"),
    _token("rope:apply_rope", "embedding"),
)
