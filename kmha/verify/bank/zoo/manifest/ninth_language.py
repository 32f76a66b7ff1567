"""Entries of torch packages for language and for positions, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a scale by all features instead of those of a head (`yoggopoth`); a softmax over the queries (`ncrnabert`); masks that
are ignored where the attention is causal, or that hide queries too (the attention and the blocks of
`a-transformers-pytorch`); normalized queries and keys (`slm388-torchdiff`); scaled rotary positions
(`simple-hierarchical-transformer`), keys that are learned (`colt5-attention`), attention beside the feed-forward
network (the blocks of `palm-pytorch`), and positions that are drawn at random (`simplepe`); an embedding of the time
that only one of two branches reads (the block of `dllm-reason`). `language-modeling-transformers`
brings a module of the name that `pylmt` has. `torch-transformer` uses the attention of `torch-multi-head-attention`.
`robotic-transformer-pytorch`, `q-transformer` and `soundstorm-pytorch` import what imports `torchvision` or
`torchaudio`, and `chunkformer` imports `torchaudio` itself. `metatreelib` imports what newer versions of `transformers`
lack. `ndsl-attn-fs-archs` needs `torchtext`, `transformerx`, `slangmod`, `steerling`, `original-llm`, `glublm`,
`skyer-llm` and `fromscratch-pyllm` another Python. No attention was found in `custom-transformer`, `minigptai`,
`samplenanogpt` and `pyminigpt`.
The heads of `robo-lib` take keys, queries and values in this order. Its masks, those of `dllm-reason` and of `mblm` say
for each key whether it is attended to, and those of `morseformer` whether it is hidden.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, LENGTH, SIZE, VOCABULARY, WIDTH, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

HELIX: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": SIZE,
    "num_window_scales": 1,
    "rope_theta": 10_000.0,
}
TOY: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "ctx_len": LENGTH,
    "emb_dim": WIDTH,
    "n_heads": HEADS,
    "n_layers": 1,
    "drop_rate": 0.0,
    "qkv_bias": True,
}

_builder = of("llmbuilder", "llmbuilder.model.gpt:")
_gate = of("gateloop-transformer", "gateloop_transformer.gateloop_transformer:")
_helix = of("helix-lm", "helix_lm.model:")
_mblm = of("mblm", "mblm.model.")
_mega = of("megabyte-pytorch", "MEGABYTE_pytorch.megabyte:")
_morse = of("morseformer", "morseformer.models.")
_palm = of("palm-pytorch", "palm_pytorch.palm_pytorch:")
_plain = of("a-transformers-pytorch", "a_transformers_pytorch.transformers:")
_positions = of("simplepe", "simplepe:")
_robo = of("robo-lib", "robo_lib.components:")
_toy = of("toyllm", "toyllm.model.gpt:")

ENTRIES: tuple[Entry, ...] = (
    _plain("AttentionBase", "attention", args(WIDTH, head_features=SIZE, num_heads=HEADS), mask="attends"),
    _plain("AbsolutePositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    Entry("deep-cross-attention", "deep_cross_attention.gpt:Attention", "attention", "torch", args(WIDTH, SIZE, HEADS)),
    Entry(
        "dllm-reason",
        "dllm_reason.models.backbone.transformer:MultiHeadAttention",
        "attention",
        "torch",
        args(WIDTH, HEADS),
        mask="attends",
    ),
    _gate("CausalFullAttention", "attention", args(WIDTH, dim_head=SIZE, heads=HEADS)),
    _gate("CausalFullAttention", "attention", args(WIDTH, dim_head=SIZE, heads=HEADS, rotary_emb=True)),
    _helix("HelixRotaryEmbedding", "embedding", with_config("helix_lm.config:HelixConfig", **HELIX)),
    _helix("apply_rotary_pos_emb", "embedding"),
    Entry(
        "infini-transformer-pytorch",
        "infini_transformer_pytorch.infini_transformer:CausalAttention",
        "attention",
        "torch",
        args(WIDTH, dim_head=SIZE, heads=HEADS),
    ),
    _builder("MultiHeadAttention", "attention", args(WIDTH, HEADS, 0.0, LENGTH)),
    _builder("TransformerBlock", "encoder", args(WIDTH, HEADS, 0.0, LENGTH), norm="pre"),
    _mblm("transformer:AttentionEncoder", "attention", args(dim=WIDTH, dim_head=SIZE, heads=HEADS), mask="attends"),
    _mblm("utils:RoPE", "embedding", args(SIZE, LENGTH)),
    _mega("Attention", "attention", args(dim=WIDTH, dim_head=SIZE, heads=HEADS)),
    _mega("RotaryEmbedding", "embedding", args(SIZE)),
    _mega("apply_rotary_pos_emb", "embedding"),
    _morse("conformer:MultiHeadSelfAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _morse("conformer:RotaryEmbedding", "embedding", args(SIZE)),
    _morse("conformer:apply_rope", "embedding"),
    _morse("lm:CausalSelfAttention", "attention", args(WIDTH, HEADS)),
    _morse("lm:GptBlock", "encoder", args(WIDTH, HEADS, 0.0), norm="pre"),
    _palm("RotaryEmbedding", "embedding", args(SIZE)),
    _palm("apply_rotary_pos_emb", "embedding"),
    _robo("MultiHeadAttention", "attention", args(HEADS, SIZE, WIDTH, 0.0, triangle_mask=False), mask="attends"),
    _robo("MultiHeadAttention", "attention", args(HEADS, SIZE, WIDTH, 0.0, LENGTH), mask="attends"),
    _robo("EncoderBlock", "encoder", args(WIDTH, HEADS, 2, 0.0), norm="post", mask="attends"),
    _robo("DecoderBlock", "decoder", args(WIDTH, HEADS, 2, True, LENGTH, 0.0), norm="post", mask="attends"),
    _positions("SinusoidalPositionalEncoding", "embedding", args(WIDTH, LENGTH)),
    _positions("RotaryPositionalEncoding", "embedding", args(SIZE, LENGTH)),
    Entry(
        "torch-position-embedding",
        "torch_position_embedding:PositionEmbedding",
        "embedding",
        "torch",
        args(LENGTH, WIDTH),
    ),
    _toy("MultiHeadAttention", "attention", args(WIDTH, WIDTH, LENGTH, 0.0, HEADS)),
    _toy("TransformerBlock", "encoder", with_config("toyllm.model.config:GPTModelConfig", **TOY), norm="pre"),
    Entry(
        "tt4l",
        "tt4l.layers.encoder.position:SinusoidalPositionEmbedding",
        "embedding",
        "torch",
        args(WIDTH),
    ),
)
