"""Entries of torch packages for language and of lessons, chosen last, from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
layers of `attention-smithy` that make a normalization and do not use it; the weak mask of the attention in `nmtlab`;
heads without `is_causal` in `xlabml`; a causal mask that hides nothing in `eztransformer`; `torch-transformers`,
`tacos`, `mirrorshift` and the bigram model of `gpt2lm`. `sagar-neuron-gpt2` is a copy of a listed package.
`rawformer`, `attzoo`, `llm-from-scratch` and others need a newer Python. `loom-gpt` installs a module that is called
`src`.
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
    with_config,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

GPT = {"n_embd": WIDTH, "n_head": HEADS, "block_size": LENGTH, "dropout": 0.0}
NATIVE: dict[str, Any] = {"d_model": WIDTH, "d_head": SIZE, "n_heads": HEADS, "n_layers": 1, "n_ctx": LENGTH}


def _smithy(found: Any) -> Any:
    """Make a layer that is handed the package's manager of embeddings, here an empty one."""
    attention = config("attention_smithy.attention:StandardAttentionMethod")
    manager = config("attention_smithy.numeric_embeddings:NumericEmbeddingManager", embedding_strategies=[])

    def call(layer: Any, x: Any, mask: Any) -> Any:
        return layer(x, x, x, manager, padding_and_loss_attention_mask=mask)[0]

    return called(found(WIDTH, HEADS, attention), call)


def _simple(**settings: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer that is handed rotary angles, as its model does."""

    def make(found: Any) -> Any:
        from gpt_simple.config import ModelConfig
        from gpt_simple.model import RotaryPositionalEmbedding

        angles = RotaryPositionalEmbedding(SIZE)

        def call(layer: Any, x: Any, mask: Any) -> Any:
            return layer(x, angles(x.shape[1], x.device), attention_mask=mask)[0]

        sizes = {"n_embd": WIDTH, "n_head": HEADS, "n_positions": LENGTH, "attention_mode": "sdpa_mask"}
        return called(found(ModelConfig(**sizes, **settings)), call)

    return make


def _blocks_with_angles(found: Any) -> Any:
    from torchblocks.position import RotaryEmbedding

    angles = RotaryEmbedding(SIZE)

    def call(layer: Any, x: Any, mask: Any) -> Any:
        return layer(x, *angles(x.shape[1], x.device), attn_mask=mask)[0]

    return called(found(WIDTH, HEADS, 1, 0.0), call)


def _zenith_block(**settings: Any) -> Callable[[Any], Any]:
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "block_size": LENGTH, "embed_dim": WIDTH, "num_heads": HEADS}

    def make(found: Any) -> Any:
        return found(
            config=config("zenith.models.decoder:DecoderConfig", ff_dim=INNER, dropout=0.0, **sizes, **settings)
        )

    return make


def _xlab_layer(prenorm: bool) -> Callable[[Any], Any]:
    def make(found: Any) -> Any:
        from xlabml.transformers import FlashMultiHeadSelfAttention

        return found(WIDTH, HEADS, INNER, prenorm=prenorm, attention=FlashMultiHeadSelfAttention, dropout=0.0)

    return make


def _baby_function(found: Any) -> Any:
    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        scale = query.shape[-1] ** -0.5
        return found(query, key, value, attn_mask=attn_mask, dropout_p=0.0, is_causal=False, scale=scale)

    return attention


_axiom_config = with_config(
    "axiomlm.models.transformer:ModelConfig", n_embd=WIDTH, n_head=HEADS, n_kv_head=1, block_size=LENGTH
)
_axiom_classic = with_config(
    "axiomlm.models.transformer:ModelConfig", n_embd=WIDTH, n_head=HEADS, block_size=LENGTH, arch="classic"
)
_mini_config = with_config(
    "types:SimpleNamespace", n_embd=WIDTH, n_head=HEADS, block_size=LENGTH, attn_pdrop=0.0, resid_pdrop=0.0
)
_native_config = with_config("transformer_lens.config:TransformerBridgeConfig", **NATIVE)
_gated_config = with_config(
    "transformer_lens.config:TransformerBridgeConfig",
    **NATIVE,
    d_mlp=INNER,
    gated_mlp=True,
    act_fn="silu",
    normalization_type="RMS",
)
_roberta_config = with_config(
    "fms.models.roberta:RoBERTaConfig", emb_dim=WIDTH, nheads=HEADS, p_dropout=0.0, hidden_grow_factor=2.0
)

_axiom = of("axiomlm", "axiomlm.models.")
_baby = of("baby-llm", "baby_llm.modules.attention:")
_blocks = of("torchblocks-vp", "torchblocks.attention:")
_components = of("transformer-components-michaelkosmider", "transformer_components_michaelkosmider.")
_compoz = of("llmcompoz", "llmcompoz.core.")
_fms = of("ibm-fms", "fms.")
_gpt2lm = of("gpt2lm", "GPT2LM.gpt2:")
_lens = of("transformer-lens", "transformer_lens.model_bridge.sources.native.model:")
_lib = of("transformer-lib", "transformer_lib.attention.")
_pico = of("picogpt", "picogpt.model:")
_simple_lm = of("gpt-simple-lm", "gpt_simple.model:")
_smithy_part = of("attention-smithy", "attention_smithy.")
_xlab = of("xlabml", "xlabml.transformers:")
_zahid = of("zahidgpt", "zahidgpt.")
_zenith = of("zenith-nlp", "zenith.models.decoder:")

ENTRIES: tuple[Entry, ...] = (
    _axiom("attention:CausalSelfAttention", "attention", _axiom_config),
    _axiom("transformer:Block", "encoder", _axiom_config, norm="pre"),
    _axiom("transformer:Block", "encoder", _axiom_classic, norm="pre"),
    _baby("Attention", "attention"),
    _baby("Attention", "attention", args(WIDTH, HEADS, 1, is_causal=False), mask="attends"),
    _baby("eager_attention", "attention", _baby_function, mask="attends"),
    _blocks("CrossAttention", "attention", args(WIDTH, HEADS, 1, 0.0), mask="attends"),
    _blocks("GroupedQueryAttention", "attention", _blocks_with_angles, mask="attends"),
    _components("multi_head_attention:MultiHeadAttention", "attention", mask="hides"),
    _components(
        "transformer_encoder:TransformerEncoderLayer",
        "encoder",
        args(HEADS, WIDTH, SIZE, SIZE, INNER, 0.0),
        norm="post",
        mask="hides",
    ),
    _components(
        "transformer_decoder:TransformerDecoderLayer",
        "decoder",
        args(HEADS, WIDTH, SIZE, SIZE, INNER, 0.0),
        norm="post",
        mask="hides",
    ),
    _compoz("attention:CausalSelfAttention", "attention"),
    _compoz("model:Block", "encoder", with_config("llmcompoz.core.config:ModelConfig", **GPT), norm="pre"),
    _fms("modules.attention:MultiHeadAttention", "attention", args(WIDTH, SIZE, SIZE, HEADS, 1), mask="attends"),
    _fms("models.roberta:RoBERTaBlock", "encoder", _roberta_config, norm="post", mask="attends"),
    _gpt2lm("CausalSelfAttention", "attention", _mini_config),
    _gpt2lm("Block", "encoder", _mini_config, norm="pre"),
    _lens("NativeAttention", "attention", _native_config, mask="attends"),
    _lens("NativeBlock", "encoder", _gated_config, norm="pre", mask="attends"),
    _lib("self_attention:SelfAttention", "attention", mask="attends"),
    _lib("causal_attention:CausalAttention", "attention"),
    _lib("multi_head_attention:MultiHeadAttention", "attention", mask="attends"),
    _lib("multi_q_attention:MultiQueryAttention", "attention"),
    _lib("grouped_q_attention:GroupedQueryAttention", "attention", args(WIDTH, HEADS, 1), mask="attends"),
    _pico("MultiHead", "attention", args(WIDTH, HEADS, LENGTH, 0.0, 10000.0)),
    _pico("Block", "encoder", args(WIDTH, HEADS, LENGTH, 0.0, 10000.0), norm="pre"),
    _simple_lm("MultiHeadAttention", "attention", _simple(), mask="attends"),
    _simple_lm("TransformerBlock", "encoder", _simple(intermediate_size=INNER), norm="pre", mask="attends"),
    _smithy_part("components:MultiheadAttention", "attention", _smithy, mask="attends"),
    _smithy_part("numeric_embeddings.SinusoidalEmbedding:SinusoidalPositionEmbedding", "embedding"),
    _smithy_part("numeric_embeddings.LearnedEmbedding:LearnedPositionEmbedding", "embedding", args(LENGTH, WIDTH)),
    _xlab("FlashMultiHeadSelfAttention", "attention", mask="attends"),
    _xlab("TransformerLayer", "encoder", _xlab_layer(prenorm=False), norm="post", mask="attends"),
    _xlab("TransformerLayer", "encoder", _xlab_layer(prenorm=True), norm="pre", mask="attends"),
    _xlab("PositionalEncoding", "embedding", args(LENGTH, WIDTH)),
    _zahid("attention.mha:MultiHeadAttention", "attention"),
    _zahid("attention.gqa:GroupedQueryAttention", "attention", args(WIDTH, HEADS, 1, "rope")),
    _zahid(
        "transformer:TransformerBlock",
        "encoder",
        args(WIDTH, HEADS, INNER, "mha", None, "layer", "swiglu", None),
        norm="pre",
    ),
    _zahid(
        "transformer:TransformerBlock",
        "encoder",
        args(WIDTH, HEADS, INNER, "mqa", "rope", "rms", "geglu", 1),
        norm="pre",
    ),
    _zahid("position.sinusodal:SinusoidalPositionalEncoding", "embedding"),
    _zenith(
        "CausalSelfAttention",
        "attention",
        args(embed_dim=WIDTH, num_heads=HEADS, block_size=LENGTH, rope=False),
    ),
    _zenith("DecoderBlock", "encoder", _zenith_block(), norm="pre"),
    _zenith("DecoderBlock", "encoder", _zenith_block(norm="layernorm", positional="learned", ffn="gelu"), norm="pre"),
    Entry("uzmorph-transformer", "uzmorph_transformer.model:PositionalEncoding", "embedding", "torch"),
)
