"""Entries of torch packages for speech, translation and proteins.

Left out, because their attention is not the standard one, or makes what the bank calls a mistake: relative positions in
ESPnet's conformer; a normalization with the unbiased deviation (the transformer block of `bert-pytorch`); a mask of
-10,000 (GPT-2 in `pytorch-pretrained-bert`); other frequencies than the paper's (the sinusoids of `fair-esm`); local
attention that is not causal, which attends to its own padding. `speechbrain` imports `torchaudio`.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

BERT = {
    "vocab_size_or_config_json_file": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": LENGTH,
}
JOEY = {"size": WIDTH, "ff_size": INNER, "num_heads": HEADS, "dropout": 0.0}
TRANSFORMER = "espnet.nets.pytorch_backend.transformer"


def _espnet_layer(attentions: int, pre_norm: bool) -> Any:
    """Return a function that makes a layer of ESPnet with this number of attentions."""

    def make(found: Any) -> Any:
        from espnet.nets.pytorch_backend.transformer.attention import MultiHeadedAttention
        from espnet.nets.pytorch_backend.transformer.positionwise_feed_forward import PositionwiseFeedForward

        inner = [MultiHeadedAttention(HEADS, WIDTH, 0.0) for _ in range(attentions)]
        network = PositionwiseFeedForward(WIDTH, INNER, 0.0)
        return found(WIDTH, *inner, network, 0.0, normalize_before=pre_norm)

    return make


def _torchscale(found: Any) -> Any:
    from torchscale.architecture.config import EncoderConfig

    return found(EncoderConfig(), WIDTH, HEADS, self_attention=True)


def _sockeye_positions(found: Any) -> Any:
    import torch

    positions = found("learned", WIDTH, LENGTH, scale_up_input=True, scale_down_positions=False)
    torch.nn.init.normal_(positions.weight)  # its constructor leaves the weights to the model
    return positions


def _old_bert(name: str, kind: str, norm: str, mask: str) -> Entry:
    make = with_config("pytorch_pretrained_bert.modeling:BertConfig", **BERT)
    return Entry("pytorch-pretrained-bert", f"pytorch_pretrained_bert.modeling:{name}", kind, "torch", make, norm, mask)


_espnet = of("espnet", f"{TRANSFORMER}.")
_joeynmt = of("joeynmt", "joeynmt.transformer_layers:")
_fair_esm = of("fair-esm", "esm.")
_bert = of("bert-pytorch", "bert_pytorch.model.")
_sockeye = of("sockeye", "sockeye.layers:")

ENTRIES = (
    Entry("conformer", "conformer.conformer:Attention", "attention", "torch", mask="attends"),
    _espnet("attention:MultiHeadedAttention", "attention", mask="attends"),
    _espnet("encoder_layer:EncoderLayer", "encoder", _espnet_layer(1, True), "pre", mask="attends"),
    _espnet("encoder_layer:EncoderLayer", "encoder", _espnet_layer(1, False), "post", mask="attends"),
    _espnet("decoder_layer:DecoderLayer", "decoder", _espnet_layer(2, True), "pre", mask="attends"),
    _espnet("embedding:PositionalEncoding", "embedding"),
    _joeynmt("MultiHeadedAttention", "attention", mask="attends"),
    _joeynmt("TransformerEncoderLayer", "encoder", args(**JOEY), norm="post", mask="attends"),
    _joeynmt("TransformerDecoderLayer", "decoder", args(**JOEY, layer_norm="pre"), norm="pre", mask="attends"),
    _joeynmt("PositionalEncoding", "embedding"),
    _fair_esm("multihead_attention:MultiheadAttention", "attention", mask="hides"),
    _fair_esm(
        "modules:TransformerLayer", "encoder", args(WIDTH, INNER, HEADS, add_bias_kv=False), norm="pre", mask="hides"
    ),
    _bert("attention.single:Attention", "attention", mask="attends"),
    _bert("attention.multi_head:MultiHeadedAttention", "attention", mask="attends"),
    _bert("embedding.position:PositionalEmbedding", "embedding"),
    _old_bert("BertEmbeddings", "embedding", "post", ""),
    _old_bert("BertSelfAttention", "attention", "", "adds"),
    _old_bert("BertLayer", "encoder", "post", "adds"),
    Entry(
        "torchscale",
        "torchscale.component.multihead_attention:MultiheadAttention",
        "attention",
        "torch",
        _torchscale,
        mask="hides",
    ),
    _sockeye("MultiHeadAttention", "attention", mask="hides"),
    _sockeye("MultiHeadSelfAttention", "attention", mask="hides"),
    _sockeye("PositionalEmbeddings", "embedding", _sockeye_positions),
    Entry(
        "local-attention",
        "local_attention.transformer:LocalMHA",
        "attention",
        "torch",
        args(dim=WIDTH, window_size=LENGTH, dim_head=SIZE, heads=HEADS, causal=True, use_rotary_pos_emb=False),
        mask="attends",
    ),
)
