"""Entries of torch packages for time series, tables and recommendations.

Left out: the multi-head attention of the Temporal Fusion Transformer, which averages its heads by design (its scaled
dot-product attention is listed); sparse, frequency and auto-correlation attention; Chronos, which does not scale the
logits; layers with batch normalization; the encoder layer of `pytorch-forecasting`, in which only the last position
attends.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

# The mask of these packages is an object of theirs.
NO_MASK = {"arguments": {"attn_mask": None}}
NO_BLOCK_MASK = {"arguments": {"x_mask": None, "cross_mask": None}}


def _nixtla(found: Any = None) -> Any:
    """Make the attention layer of neuralforecast, without a mask."""
    from neuralforecast.common._modules import AttentionLayer, FullAttention

    return (found or AttentionLayer)(FullAttention(mask_flag=False, attention_dropout=0.0), WIDTH, HEADS)


def _nixtla_encoder(found: Any) -> Any:
    return found(_nixtla(), WIDTH, INNER, dropout=0.0)


def _nixtla_decoder(found: Any) -> Any:
    return found(_nixtla(), _nixtla(), WIDTH, INNER, dropout=0.0)


def _forecasting(found: Any) -> Any:
    from pytorch_forecasting.layers import FullAttention

    return found(FullAttention(mask_flag=False, attention_dropout=0.0), WIDTH, HEADS)


ENTRIES = (
    Entry(
        "neuralforecast",
        "neuralforecast.common._modules:AttentionLayer",
        "attention",
        "torch",
        _nixtla,
        options=NO_MASK,
    ),
    Entry(
        "neuralforecast",
        "neuralforecast.common._modules:TransEncoderLayer",
        "encoder",
        "torch",
        _nixtla_encoder,
        norm="post",
        options=NO_MASK,
    ),
    Entry(
        "neuralforecast",
        "neuralforecast.common._modules:TransDecoderLayer",
        "decoder",
        "torch",
        _nixtla_decoder,
        norm="post",
        options=NO_BLOCK_MASK,
    ),
    Entry("neuralforecast", "neuralforecast.common._modules:PositionalEmbedding", "embedding", "torch"),
    Entry(
        "neuralforecast",
        "neuralforecast.models.patchtst:_MultiheadAttention",
        "attention",
        "torch",
        args(WIDTH, HEADS, res_attention=True),
        mask="hides",
    ),
    Entry(
        "neuralforecast",
        "neuralforecast.models.patchtst:TSTEncoderLayer",
        "encoder",
        "torch",
        args(None, WIDTH, HEADS, linear_hidden_size=INNER, norm="LayerNorm", res_attention=True),
        norm="post",
        mask="hides",
    ),
    Entry(
        "pytorch-forecasting",
        "pytorch_forecasting.layers:AttentionLayer",
        "attention",
        "torch",
        _forecasting,
        options=NO_MASK,
    ),
    Entry(
        "pytorch-forecasting",
        "pytorch_forecasting.layers:FullAttention",
        "attention",
        "torch",
        args(mask_flag=False, attention_dropout=0.0),
        options=NO_MASK,
    ),
    Entry(
        "pytorch-forecasting",
        "pytorch_forecasting.models.temporal_fusion_transformer.sub_modules:ScaledDotProductAttention",
        "attention",
        "torch",
        mask="hides",
    ),
    Entry("pytorch-forecasting", "pytorch_forecasting.layers:PositionalEmbedding", "embedding", "torch"),
    Entry(
        "darts",
        "darts.models.components.tft_submodels:_ScaledDotProductAttention",
        "attention",
        "torch",
        mask="hides",
    ),
    Entry("darts", "darts.models.forecasting.transformer_model:_PositionalEncoding", "embedding", "torch"),
    Entry("darts", "darts.models.components.patchtst_fm_submodels:_Attention", "attention", "torch", mask="attends"),
    Entry(
        "darts",
        "darts.models.components.patchtst_fm_submodels:_TransformerBlock",
        "encoder",
        "torch",
        args(WIDTH, HEADS),
        norm="pre",
        mask="attends",
    ),
    Entry("tsai", "tsai.models.TabTransformer:_MultiheadAttention", "attention", "torch", mask="hides"),
    Entry(
        "tsai",
        "tsai.models.TabTransformer:_TabEncoderLayer",
        "encoder",
        "torch",
        args(None, WIDTH, HEADS, d_ff=INNER),
        norm="post",
        mask="hides",
    ),
    Entry("tab-transformer-pytorch", "tab_transformer_pytorch.tab_transformer_pytorch:Attention", "attention", "torch"),
    Entry(
        "tab-transformer-pytorch",
        "tab_transformer_pytorch.ft_transformer:Attention",
        "attention",
        "torch",
        args(WIDTH, HEADS, SIZE),
        norm="pre",
    ),
    Entry(
        "rtdl",
        "rtdl.modules:MultiheadAttention",
        "attention",
        "torch",
        args(d_token=WIDTH, n_heads=HEADS, dropout=0.0, bias=True, initialization="xavier"),
        options={"arguments": {"key_compression": None, "value_compression": None}},
    ),
    Entry("rtdl-revisiting-models", "rtdl_revisiting_models:MultiheadAttention", "attention", "torch"),
    Entry("tabpfn", "tabpfn.architectures.tabpfn_v2:AlongRowAttention", "attention", "torch"),
    Entry("tabpfn", "tabpfn.architectures.tabpfn_v3:CrossAttention", "attention", "torch"),
    Entry("recbole", "recbole.model.layers:MultiHeadAttention", "attention", "torch", norm="post", mask="adds"),
    Entry("recbole", "recbole.model.layers:TransformerLayer", "encoder", "torch", norm="post", mask="adds"),
)
