"""Entries of torch's own layers, and of `transformers`.

The models of `transformers` are made from configurations, with random weights, and with `eager` attention, which adds
the mask. Left out: T5 and its relatives, which do not scale the logits; relative positions (DeBERTa, XLNet); Marian's
sinusoids, sines first, then cosines; BLOOM, whose layers need the slopes of ALiBi; GPT-1, which hides with -10,000.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import (
    HEADS,
    INNER,
    LENGTH,
    VOCABULARY,
    WIDTH,
    called,
    config,
    of,
    with_config,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

BERT = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": LENGTH,
}
BART = {
    "d_model": WIDTH,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "AlbertConfig": {**BERT, "embedding_size": WIDTH},
    "BartConfig": BART,
    "BertConfig": BERT,
    "BertGenerationConfig": BERT,
    "CLIPTextConfig": BERT,
    "CTRLConfig": {"n_embd": WIDTH, "n_head": HEADS, "dff": INNER, "n_layer": 1},
    "DistilBertConfig": {"dim": WIDTH, "n_heads": HEADS, "hidden_dim": INNER, "vocab_size": VOCABULARY},
    "GPT2Config": {"n_embd": WIDTH, "n_head": HEADS, "n_inner": INNER, "n_positions": LENGTH},
    "LlamaConfig": {**BERT, "num_key_value_heads": HEADS},
    "MBartConfig": BART,
    "OPTConfig": {"hidden_size": WIDTH, "num_attention_heads": HEADS, "ffn_dim": INNER, "word_embed_proj_dim": WIDTH},
    "ViTConfig": BERT,
    "VideoMAEConfig": BERT,
    "WhisperConfig": BART,
}


def _config(name: str) -> Any:
    return config(f"transformers:{name}", attn_implementation="eager", **SETTINGS[name])


def _of(name: str, *arguments: Any, **settings: Any) -> Callable[[Any], Any]:
    return with_config(f"transformers:{name}", *arguments, attn_implementation="eager", **SETTINGS[name], **settings)


def _sizes(name: str) -> Callable[[Any], Any]:
    """Return a function that calls an attention class with its sizes, and with the configuration by name."""
    return lambda found: found(WIDTH, HEADS, config=_config(name))


def _with_rotation(name: str) -> Callable[[Any], Any]:
    """Return a function that makes a layer, and gives it the rotary angles of its model."""

    def make(found: Any) -> Any:
        import torch
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        rotation = LlamaRotaryEmbedding(_config(name))

        def call(layer: Any, x: Any, mask: Any) -> Any:
            angles = rotation(x, torch.arange(x.shape[1])[None])
            return layer(x, position_embeddings=angles, attention_mask=mask)

        return called(found(_config(name), 0), call)

    return make


def _entry(where: str, kind: str, make: Callable[[Any], Any] | None, norm: str = "", mask: str = "adds") -> Entry:
    model, _, name = where.partition(":")
    return Entry(
        "transformers",
        f"transformers.models.{model}.modeling_{model}:{name}",
        kind,
        "torch",
        make,
        norm=norm,
        mask=mask,
    )


_torch = of("torch", "torch.")

ENTRIES = (
    _torch("nn.functional:scaled_dot_product_attention", "attention", mask="attends"),
    _torch("nn:MultiheadAttention", "attention", mask="hides"),
    _torch("nn:TransformerEncoderLayer", "encoder", norm="post", mask="hides"),
    _torch(
        "nn:TransformerEncoderLayer",
        "encoder",
        args(WIDTH, HEADS, INNER, activation="gelu", batch_first=True, norm_first=True),
        norm="pre",
        mask="hides",
    ),
    _torch("nn:TransformerDecoderLayer", "decoder", norm="post", mask="hides"),
    _torch(
        "nn:TransformerDecoderLayer",
        "decoder",
        args(WIDTH, HEADS, INNER, batch_first=True, norm_first=True),
        norm="pre",
        mask="hides",
    ),
    _entry("bert:BertEmbeddings", "embedding", _of("BertConfig"), "post", ""),
    _entry("bert:BertSelfAttention", "attention", _of("BertConfig")),
    _entry("bert:BertCrossAttention", "attention", _of("BertConfig")),
    _entry("bert:BertAttention", "attention", _of("BertConfig"), "post"),
    _entry("bert:BertLayer", "encoder", _of("BertConfig"), "post"),
    _entry("albert:AlbertAttention", "attention", _of("AlbertConfig"), "post"),
    _entry("distilbert:Embeddings", "embedding", _of("DistilBertConfig"), "post", ""),
    _entry("distilbert:DistilBertSelfAttention", "attention", _of("DistilBertConfig")),
    _entry("distilbert:TransformerBlock", "encoder", _of("DistilBertConfig"), "post"),
    _entry("gpt2:GPT2Attention", "attention", _of("GPT2Config")),
    _entry("gpt2:GPT2Block", "encoder", _of("GPT2Config"), "pre"),
    _entry("opt:OPTAttention", "attention", _of("OPTConfig")),
    _entry("opt:OPTDecoderLayer", "encoder", _of("OPTConfig"), "pre"),
    _entry("bart:BartAttention", "attention", _sizes("BartConfig")),
    _entry("bart:BartEncoderLayer", "encoder", _of("BartConfig"), "post"),
    _entry("bart:BartDecoderLayer", "decoder", _of("BartConfig"), "post"),
    _entry("mbart:MBartEncoderLayer", "encoder", _of("MBartConfig"), "pre"),
    _entry("mbart:MBartDecoderLayer", "decoder", _of("MBartConfig"), "pre"),
    _entry("ctrl:MultiHeadAttention", "attention", _of("CTRLConfig")),
    _entry("vit:ViTAttention", "attention", _of("ViTConfig")),
    _entry("vit:ViTLayer", "encoder", _of("ViTConfig"), "pre"),
    _entry("videomae:VideoMAESelfAttention", "attention", _of("VideoMAEConfig"), mask=""),
    _entry("whisper:WhisperAttention", "attention", _sizes("WhisperConfig")),
    _entry("whisper:WhisperEncoderLayer", "encoder", _of("WhisperConfig"), "pre"),
    _entry("whisper:WhisperDecoderLayer", "decoder", _of("WhisperConfig"), "pre"),
    _entry("clip:CLIPTextEmbeddings", "embedding", _of("CLIPTextConfig"), "", ""),
    _entry("clip:CLIPAttention", "attention", _of("CLIPTextConfig")),
    _entry("clip:CLIPEncoderLayer", "encoder", _of("CLIPTextConfig"), "pre"),
    _entry("llama:LlamaAttention", "attention", _with_rotation("LlamaConfig")),
    _entry("llama:LlamaDecoderLayer", "encoder", _with_rotation("LlamaConfig"), "pre"),
)
