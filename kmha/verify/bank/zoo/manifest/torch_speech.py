"""Entries of torch packages for speech, translation and proteins.

Left out, because their attention is not the standard one, or makes what the bank calls a mistake: relative positions in
ESPnet's conformer; a normalization with the unbiased deviation (the transformer block of `bert-pytorch`); a mask of
-10,000 (GPT-2 in `pytorch-pretrained-bert`); other frequencies than the paper's (the sinusoids of `fair-esm`); local
attention that is not causal, which attends to its own padding. `speechbrain` imports `torchaudio`.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, with_config
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


def _espnet(attentions: int, pre_norm: bool) -> Any:
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


ENTRIES = (
    Entry("conformer", "conformer.conformer:Attention", "attention", "torch", mask="attends"),
    Entry("espnet", f"{TRANSFORMER}.attention:MultiHeadedAttention", "attention", "torch", mask="attends"),
    Entry(
        "espnet",
        f"{TRANSFORMER}.encoder_layer:EncoderLayer",
        "encoder",
        "torch",
        _espnet(1, True),
        "pre",
        mask="attends",
    ),
    Entry(
        "espnet",
        f"{TRANSFORMER}.encoder_layer:EncoderLayer",
        "encoder",
        "torch",
        _espnet(1, False),
        "post",
        mask="attends",
    ),
    Entry(
        "espnet",
        f"{TRANSFORMER}.decoder_layer:DecoderLayer",
        "decoder",
        "torch",
        _espnet(2, True),
        "pre",
        mask="attends",
    ),
    Entry("espnet", f"{TRANSFORMER}.embedding:PositionalEncoding", "embedding", "torch"),
    Entry("joeynmt", "joeynmt.transformer_layers:MultiHeadedAttention", "attention", "torch", mask="attends"),
    Entry(
        "joeynmt",
        "joeynmt.transformer_layers:TransformerEncoderLayer",
        "encoder",
        "torch",
        args(**JOEY),
        norm="post",
        mask="attends",
    ),
    Entry(
        "joeynmt",
        "joeynmt.transformer_layers:TransformerDecoderLayer",
        "decoder",
        "torch",
        args(**JOEY, layer_norm="pre"),
        norm="pre",
        mask="attends",
    ),
    Entry("joeynmt", "joeynmt.transformer_layers:PositionalEncoding", "embedding", "torch"),
    Entry("fair-esm", "esm.multihead_attention:MultiheadAttention", "attention", "torch", mask="hides"),
    Entry(
        "fair-esm",
        "esm.modules:TransformerLayer",
        "encoder",
        "torch",
        args(WIDTH, INNER, HEADS, add_bias_kv=False),
        norm="pre",
        mask="hides",
    ),
    Entry("bert-pytorch", "bert_pytorch.model.attention.single:Attention", "attention", "torch", mask="attends"),
    Entry(
        "bert-pytorch",
        "bert_pytorch.model.attention.multi_head:MultiHeadedAttention",
        "attention",
        "torch",
        mask="attends",
    ),
    Entry("bert-pytorch", "bert_pytorch.model.embedding.position:PositionalEmbedding", "embedding", "torch"),
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
    Entry("sockeye", "sockeye.layers:MultiHeadAttention", "attention", "torch", mask="hides"),
    Entry("sockeye", "sockeye.layers:MultiHeadSelfAttention", "attention", "torch", mask="hides"),
    Entry(
        "sockeye",
        "sockeye.layers:PositionalEmbeddings",
        "embedding",
        "torch",
        _sockeye_positions,
    ),
    Entry(
        "local-attention",
        "local_attention.transformer:LocalMHA",
        "attention",
        "torch",
        args(dim=WIDTH, window_size=LENGTH, dim_head=SIZE, heads=HEADS, causal=True, use_rotary_pos_emb=False),
        mask="attends",
    ),
)
