"""Held-out entries of torch packages for language, molecules and recommendations, chosen later.

Left out, because they are not the standard attention, or make what the bank calls a mistake: dropout at inference
(the layers of `uni2ts`); a mask of -10,000 (GPT-2 in `bertviz`); a dropout rate without effect
(`memory-efficient-attention-pytorch`); masks that raise an error without a bias (the JAX function of
`memory-efficient-attention`); cosines first, then sines (the positions of `sbi`); one row of sinusoids added to all
positions (`lightning`); frequencies that depend on the maximum length (`neuralhydrology`); the timescales of
tensor2tensor (`allennlp`, `texar-pytorch`); a normalization that is made and not used (the block of minGPT in `ray`);
relative positions (the encoder of `supar`); inputs that are changed in place (the positions of `rectools`). The rest
of `bertviz`, `kan-gpt` and `eole` are copies of listed packages. `bert4torch` imports `torchvision`, and `braindecode`
requires `torchaudio`.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

PARLAI = {"n_heads": HEADS, "embedding_size": WIDTH, "ffn_size": INNER}
SBI: dict[str, Any] = {
    "feature_space_dim": WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": SIZE,
    "attention_dropout": 0.0,
    "pos_emb": "none",
    "pos_emb_base": 10000.0,
    "ffn": "mlp",
    "intermediate_size": INNER,
    "mlp_activation": "gelu",
    "rms_norm_eps": 1e-6,
}

_parlai = of("parlai", "parlai.agents.transformer.modules:")
_supar = of("supar", "supar.modules.transformer:")
_fastnlp = of("fastnlp", "fastNLP.")
_uni2ts = of("uni2ts", "uni2ts.module.")
_unimol = of("unimol-tools", "unimol_tools.models.transformers:")
_sbi = of("sbi", "sbi.neural_nets.embedding_nets.transformer:")

ENTRIES = (
    _parlai("MultiHeadAttention", "attention", args(PARLAI), mask="attends"),
    _parlai("BasicAttention", "attention", args(dim=2, attn="sqrt", get_weights=False), mask="attends"),
    _parlai("TransformerEncoderLayer", "encoder", args(PARLAI, variant="aiayn"), norm="post", mask="attends"),
    _parlai("TransformerEncoderLayer", "encoder", args(PARLAI, variant="prelayernorm"), norm="pre", mask="attends"),
    _parlai("TransformerDecoderLayer", "decoder", args(PARLAI), norm="post", mask="attends"),
    _supar("SinusoidPositionalEmbedding", "embedding"),
    _supar("PositionalEmbedding", "embedding", args(WIDTH, LENGTH)),
    _fastnlp("modules.torch.attention:DotAttention", "attention", mask="hides"),
    _fastnlp("modules.torch.attention:MultiHeadAttention", "attention", mask="attends"),
    _fastnlp(
        "modules.torch.encoder.seq2seq_encoder:TransformerSeq2SeqEncoderLayer",
        "encoder",
        args(WIDTH, HEADS, INNER, 0.0),
        norm="pre",
        mask="attends",
    ),
    _fastnlp(
        "modules.torch.decoder.seq2seq_decoder:TransformerSeq2SeqDecoderLayer",
        "decoder",
        args(WIDTH, HEADS, INNER, 0.0),
        norm="pre",
        mask="attends",
    ),
    _fastnlp("embeddings.torch.utils:get_sinusoid_encoding_table", "embedding"),
    _uni2ts("attention:native_scaled_dot_product_attention", "attention", mask="attends"),
    _uni2ts(
        "position.additive:SinusoidalPositionEncoding",
        "embedding",
        args(width=WIDTH, max_len=LENGTH, normalize=False),
    ),
    _unimol("SelfMultiheadAttention", "attention", mask="hides"),
    _unimol("TransformerEncoderLayer", "encoder", args(WIDTH, INNER, HEADS, post_ln=True), norm="post", mask="hides"),
    _unimol("TransformerEncoderLayer", "encoder", args(WIDTH, INNER, HEADS), norm="pre", mask="hides"),
    _sbi("FullAttention", "attention", args(SBI), mask="adds"),
    _sbi("TransformerBlock", "encoder", args(SBI), norm="pre", mask="adds"),
    Entry(
        "memory-efficient-attention",
        "memory_efficient_attention:efficient_dot_product_attention_pt",
        "attention",
        "torch",
        mask="attends",
    ),
    Entry(
        "replay-rec",
        "replay.models.nn.sequential.bert4rec.model:TransformerBlock",
        "encoder",
        "torch",
        args(WIDTH, HEADS, INNER, 0.0),
        norm="pre",
        mask="attends",
    ),
    Entry(
        "torch-rechub",
        "torch_rechub.models.generative.hllm:HLLMTransformerBlock",
        "encoder",
        "torch",
        args(WIDTH, HEADS, 0.0),
        norm="pre",
    ),
    Entry(
        "ray",
        "ray.rllib.models.torch.modules.multi_head_attention:MultiHeadAttention",
        "attention",
        "torch",
        args(WIDTH, WIDTH, HEADS, SIZE),
    ),
)
