"""Entries of torch packages for language, speech and lessons, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a scale by the features of all heads instead of those of each head (`echoai-transformer-block`, `micronus`); one
normalization for several residual connections, and cross-attention that takes inputs of one length alone (the decoder
of `alpaca-transformer`); a normalization that is made with the number of features instead of the configuration, and
fails (the blocks of `juziye`); normalized queries and keys (`gleamlm`); one query at a time (`pydrobert-pytorch`);
masks that hide queries too (`multistream-transformers`, and the layer of `linmult`) or that hide what they should not
(`ponder-transformer`); local attention, and rotary angles by the features of all heads (parts of `physis-lm`); windows
and ALiBi (parts of `nanoscope-lab`); keys and values in pages (`osc-transformers`). BERT in `bert4pytorch`,
`torchkbert` and `albert-pytorch` is the one of `pytorch-pretrained-bert`, and `torch-gpt-2` uses the attention of
another package. `rau` keeps the layers of torch, and there is its positional encoding alone. `babygpt`, `socratex` and
`bangla-ocr` import `torchvision`, `boolformer` and `givt-pytorch` packages that are missing, and `whipstr` a module
that it does not bring. `minegpt2` needs MXNet, and `apteryx-transformers`, `sqlpup`, `impruver` and `gpt-verse` another
Python.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, WIDTH, of, with_config, with_forward
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _without_past(found: Any) -> Any:
    """Make a layer that is handed no keys and values of the past, and whose mask is required."""
    return with_forward(found(), lambda self, x, mask: self.layer(x, None, mask)[0])


def _from_the_first(found: Any) -> Any:
    """Make a layer whose first position is the one of the first input, and not of a state before it."""
    return with_forward(found(), lambda self, x: self.layer(x, include_first=False))


def _softmax(found: Any) -> Any:
    """Make a layer around the package's attention with a softmax."""
    from linmult.models.attention import SoftmaxAttention

    return found(SoftmaxAttention(WIDTH, HEADS), WIDTH, HEADS)


def _rotary(found: Any) -> Any:
    from nanoscope.blocks.positional import RoPE

    return found(**SCOPE, n_heads=HEADS, pos=RoPE())


def _scope_block(order: str) -> Callable[[Any], Any]:
    """Return a function that makes a block of nanoscope's parts, with its normalizations in this order."""

    def make(found: Any) -> Any:
        from nanoscope.blocks.attention import Attention
        from nanoscope.blocks.mlp import GELUMLP
        from nanoscope.blocks.norm import LayerNorm

        parts = {"norm": LayerNorm(), "attn": Attention(n_heads=HEADS), "mlp": GELUMLP(hidden=INNER)}
        return found(**SCOPE, **parts, order=order)

    return make


EKA: dict[str, Any] = {
    "d_model": WIDTH,
    "n_heads": HEADS,
    "n_kv_heads": 1,
    "d_ffn": INNER,
    "context_length": LENGTH,
    "dropout": 0.0,
}
JUZIYE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "attention_probs_dropout_prob": 0.0,
}
NANO: dict[str, Any] = {"block_size": LENGTH, "n_head": HEADS, "n_embd": WIDTH}
SCOPE: dict[str, Any] = {"d_model": WIDTH, "context_length": LENGTH}

_alpaca = of("alpaca-transformer", "alpaca.")
_calt = of("calt-x", "calt.models.positional_embeddings.")
_chinese = of("chinese-gpt", "chinese_gpt.gpt_modeling:")
_eka = of("eka-ai", "eka_ai.model:")
_hourglass = of("hourglass-transformer-pytorch", "hourglass_transformer_pytorch.hourglass_transformer_pytorch:")
_linmult = of("linmult", "linmult.models.")
_research = of("autoresearch-nano", "autoresearch.model:")
_scope = of("nanoscope-lab", "nanoscope.blocks.")

_eka_config = with_config("eka_ai.config:EKAConfig", **EKA)
_nano_config = with_config("autoresearch.model:GPTConfig", **NANO)

ENTRIES: tuple[Entry, ...] = (
    _alpaca("multi_head_self_attention:MultiSelfAttension", "attention", args(WIDTH, HEADS)),
    _alpaca("multi_head_self_attention:MultiSelfAttension", "attention", args(WIDTH, HEADS, masked=True)),
    _alpaca("single_head_self_attention:SingleSelfAttention", "attention", args(WIDTH)),
    _alpaca("encoder_block:EncoderBlock", "encoder", args(WIDTH, HEADS, INNER), norm="post"),
    _calt("sinusoidal:SinusoidalPositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _calt("generic:GenericPositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _calt("rope:RotaryPositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _chinese("TransformerSelfAttention", "attention", _without_past, mask="attends"),
    _chinese("TransformerLayer", "encoder", _without_past, norm="post", mask="attends"),
    _eka("CausalSelfAttention", "attention", _eka_config),
    _eka("TransformerBlock", "encoder", _eka_config, norm="pre"),
    _hourglass("Attention", "attention", args(WIDTH, HEADS, SIZE), mask="attends"),
    _hourglass("Attention", "attention", args(WIDTH, HEADS, SIZE, causal=True), mask="attends"),
    Entry(
        "juziye",
        "juziye.juziye:MultiHeadAttention",
        "attention",
        "torch",
        with_config("juziye.juziye:ModelConfig", **JUZIYE),
        mask="adds",
    ),
    _linmult("attention:AttentionLayer", "attention", _softmax, mask="attends"),
    _linmult("positional_embedding:PositionalEncoding", "embedding", args(0.0)),
    Entry(
        "physis-lm",
        "physis_lm.torch_backend.layers:MultiheadAttention",
        "attention",
        "torch",
        args(WIDTH, HEADS, 0.3),
        mask="attends",
    ),
    Entry(
        "rau",
        "rau.models.transformer.input_layer:SinusoidalPositionalEncodingLayer",
        "embedding",
        "torch",
        _from_the_first,
    ),
    _research("CausalSelfAttention", "attention", _nano_config),
    _research("Block", "encoder", _nano_config, norm="pre"),
    _scope("attention:Attention", "attention", args(**SCOPE, n_heads=HEADS)),
    _scope("attention:Attention", "attention", args(**SCOPE, n_heads=HEADS, n_kv_heads=1, bias=True)),
    _scope("attention:Attention", "attention", _rotary),
    _scope("structure:Block", "encoder", _scope_block("pre"), norm="pre"),
    _scope("structure:Block", "encoder", _scope_block("post"), norm="post"),
    _scope("embedding:LearnedPosition", "embedding", args(**SCOPE)),
)
