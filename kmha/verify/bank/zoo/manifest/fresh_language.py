"""Entries of torch packages for language, speech and proteins.

Left out, because they are not the standard attention, or make what the bank calls a mistake: a mask of -10,000
(`pytorch-pretrained-vit`, `d3rlpy`, GPT-2 in `pytorch-transformers`); logits that are scaled twice (`ablang2`); a
normalization with the unbiased deviation (the layer of `transformer-encoder`); normalizations before and after
attention (the layers of `min-dalle`); an activation after the feed-forward network (the block of `agilerl`); keys and
values with a learned pair in front (`recurrent-memory-transformer-pytorch`, `minimagen`); one kernel for all heads
(`simple-transformer`); masks that are repeated for heads as if batches came second (`torch-multi-head-attention`); a
mask that has no effect in causal attention (`ring-attention-pytorch`); sines first, then cosines (the sinusoids of
`openai-whisper`). `funasr` and `rna-fm` are copies of packages in the other half. `esm` has the module name of
`fair-esm`. `taming-transformers`, and `dalle-pytorch` with it, import what newer versions of their requirements lack.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import (
    HEADS,
    INNER,
    LENGTH,
    VOCABULARY,
    WIDTH,
    config,
    of,
    with_config,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

GPT = {
    "vocab_size": VOCABULARY,
    "context_length": LENGTH,
    "emb_dim": WIDTH,
    "n_heads": HEADS,
    "drop_rate": 0.0,
    "qkv_bias": True,
}
ABLANG = {
    "vocab_size": 24,
    "pad_token_id": 21,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": LENGTH,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12,
}
BERT: dict[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": INNER}
DISTILBERT: dict[str, Any] = {"dim": WIDTH, "n_heads": HEADS, "hidden_dim": INNER}
# The mask of OpenAI's layers says whether they are causal. Its values are not read.
NO_MASK = {"arguments": {"mask": None}}


def _xlm(found: Any) -> Any:
    return found(HEADS, WIDTH, config("pytorch_transformers.modeling_xlm:XLMConfig"))


def _ablang(name: str, kind: str, norm: str = "", mask: str = "") -> Entry:
    return Entry("ablang", f"ablang.{name}", kind, "torch", with_config("types:SimpleNamespace", **ABLANG), norm, mask)


def _tape(name: str, kind: str, norm: str = "", mask: str = "") -> Entry:
    make = with_config("tape.models.modeling_bert:ProteinBertConfig", **BERT)
    return Entry("tape-proteins", f"tape.models.modeling_bert:{name}", kind, "torch", make, norm, mask)


def _old(name: str, kind: str, config: str, norm: str = "", mask: str = "attends", **settings: Any) -> Entry:
    make = with_config(f"pytorch_transformers.modeling_{name.partition(':')[0]}:{config}", **settings)
    return Entry("pytorch-transformers", f"pytorch_transformers.modeling_{name}", kind, "torch", make, norm, mask)


_llms = of("llms-from-scratch", "llms_from_scratch.")
_onmt = of("opennmt-py", "onmt.")
_whisper = of("openai-whisper", "whisper.model:")
_moshi = of("moshi", "moshi.modules.transformer:")
_demucs = of("demucs", "demucs.transformer:")
_encoder = of("transformer-encoder", "transformer_encoder.multi_head_attention:")
_agilerl = of("agilerl", "agilerl.modules.")

ENTRIES = (
    _llms("ch03:SelfAttention_v1", "attention"),
    _llms("ch03:SelfAttention_v2", "attention"),
    _llms("ch03:CausalAttention", "attention"),
    _llms("ch03:MultiHeadAttentionWrapper", "attention"),
    _llms("ch03:MultiHeadAttention", "attention"),
    _llms("ch03:PyTorchMultiHeadAttention", "attention"),
    _llms("ch04:TransformerBlock", "encoder", args(GPT), norm="pre"),
    _ablang("encoderblocks:ThirdMultiHeadAttention", "attention", mask="hides"),
    _ablang("encoderblocks:EncoderBlock", "encoder", norm="post", mask="hides"),
    _ablang("embedding:AbEmbeddings", "embedding", norm="post"),
    _tape("ProteinBertEmbeddings", "embedding", norm="post"),
    _tape("ProteinBertSelfAttention", "attention", mask="adds"),
    _tape("ProteinBertLayer", "encoder", norm="post", mask="adds"),
    Entry(
        "pytorch-transformers",
        "pytorch_transformers.modeling_xlm:MultiHeadAttention",
        "attention",
        "torch",
        _xlm,
        mask="attends",
    ),
    _old("distilbert:MultiHeadSelfAttention", "attention", "DistilBertConfig", **DISTILBERT),
    _old("distilbert:TransformerBlock", "encoder", "DistilBertConfig", norm="post", **DISTILBERT),
    _old("bert:BertLayer", "encoder", "BertConfig", norm="post", mask="adds", **BERT),
    _onmt("modules.multi_headed_attn:MultiHeadedAttention", "attention", mask="hides"),
    _onmt(
        "encoders.transformer:TransformerEncoderLayer",
        "encoder",
        args(WIDTH, HEADS, INNER, 0.0, 0.0),
        norm="pre",
        mask="hides",
    ),
    _onmt(
        "decoders.transformer:TransformerDecoderLayer",
        "decoder",
        args(WIDTH, HEADS, INNER, 0.0, 0.0),
        norm="pre",
        mask="hides",
    ),
    _onmt("modules.embeddings:PositionalEncoding", "embedding", args(WIDTH, "SinusoidalInterleaved")),
    _whisper("MultiHeadAttention", "attention", args(WIDTH, HEADS), options=NO_MASK),
    _whisper("ResidualAttentionBlock", "encoder", args(WIDTH, HEADS), norm="pre", options=NO_MASK),
    _moshi("StreamingTransformerLayer", "encoder", args(WIDTH, HEADS, INNER), norm="pre"),
    _moshi("StreamingTransformerLayer", "encoder", args(WIDTH, HEADS, INNER, causal=True), norm="pre"),
    _moshi(
        "StreamingTransformerLayer",
        "decoder",
        args(WIDTH, HEADS, INNER, causal=True, cross_attention=True),
        norm="pre",
    ),
    _demucs("MyTransformerEncoderLayer", "encoder", args(WIDTH, HEADS, INNER), norm="post", mask="hides"),
    _demucs(
        "MyTransformerEncoderLayer", "encoder", args(WIDTH, HEADS, INNER, norm_first=True), norm="pre", mask="hides"
    ),
    _demucs("CrossTransformerEncoderLayer", "encoder", args(WIDTH, HEADS, INNER), norm="post", mask="hides"),
    Entry(
        "torch-multi-head-attention",
        "torch_multi_head_attention:ScaledDotProductAttention",
        "attention",
        "torch",
        mask="attends",
    ),
    _encoder("ScaledDotProductAttention", "attention", mask="attends"),
    _encoder("MultiHeadAttention", "attention", mask="attends"),
    Entry("deep-phonemizer", "dp.model.utils:PositionalEncoding", "embedding", "torch"),
    _agilerl("gpt:CausalSelfAttention", "attention", mask="attends"),
    _agilerl("bert:PositionalEncoder", "embedding"),
)
