"""Entries of torch packages for time series, tables and recommendations.

Left out: the multi-head attention of the Temporal Fusion Transformer, which averages its heads by design (its scaled
dot-product attention is listed); sparse, frequency and auto-correlation attention; Chronos, which does not scale the
logits; layers with batch normalization; the encoder layer of `pytorch-forecasting`, in which only the last position
attends.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


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


_neuralforecast = of("neuralforecast", "neuralforecast.")
_pytorch_forecasting = of("pytorch-forecasting", "pytorch_forecasting.")
_darts = of("darts", "darts.models.")
_tsai = of("tsai", "tsai.models.TabTransformer:")
_tab_transformer = of("tab-transformer-pytorch", "tab_transformer_pytorch.")
_tabpfn = of("tabpfn", "tabpfn.architectures.")
_recbole = of("recbole", "recbole.model.layers:")

ENTRIES = (
    _neuralforecast("common._modules:AttentionLayer", "attention", _nixtla),
    _neuralforecast("common._modules:TransEncoderLayer", "encoder", _nixtla_encoder, norm="post"),
    _neuralforecast("common._modules:TransDecoderLayer", "decoder", _nixtla_decoder, norm="post"),
    _neuralforecast("common._modules:PositionalEmbedding", "embedding"),
    _neuralforecast(
        "models.patchtst:_MultiheadAttention", "attention", args(WIDTH, HEADS, res_attention=True), mask="hides"
    ),
    _neuralforecast(
        "models.patchtst:TSTEncoderLayer",
        "encoder",
        args(None, WIDTH, HEADS, linear_hidden_size=INNER, norm="LayerNorm", res_attention=True),
        norm="post",
        mask="hides",
    ),
    _pytorch_forecasting("layers:AttentionLayer", "attention", _forecasting),
    _pytorch_forecasting("layers:FullAttention", "attention", args(mask_flag=False, attention_dropout=0.0)),
    _pytorch_forecasting(
        "models.temporal_fusion_transformer.sub_modules:ScaledDotProductAttention", "attention", mask="hides"
    ),
    _pytorch_forecasting("layers:PositionalEmbedding", "embedding"),
    _darts("components.tft_submodels:_ScaledDotProductAttention", "attention", mask="hides"),
    _darts("forecasting.transformer_model:_PositionalEncoding", "embedding"),
    _darts("components.patchtst_fm_submodels:_Attention", "attention", mask="attends"),
    _darts(
        "components.patchtst_fm_submodels:_TransformerBlock", "encoder", args(WIDTH, HEADS), norm="pre", mask="attends"
    ),
    _tsai("_MultiheadAttention", "attention", mask="hides"),
    _tsai("_TabEncoderLayer", "encoder", args(None, WIDTH, HEADS, d_ff=INNER), norm="post", mask="hides"),
    _tab_transformer("tab_transformer_pytorch:Attention", "attention"),
    _tab_transformer("ft_transformer:Attention", "attention", args(WIDTH, HEADS, SIZE), norm="pre"),
    Entry(
        "rtdl",
        "rtdl.modules:MultiheadAttention",
        "attention",
        "torch",
        args(d_token=WIDTH, n_heads=HEADS, dropout=0.0, bias=True, initialization="xavier"),
    ),
    Entry("rtdl-revisiting-models", "rtdl_revisiting_models:MultiheadAttention", "attention", "torch"),
    _tabpfn("tabpfn_v2:AlongRowAttention", "attention"),
    _tabpfn("tabpfn_v3:CrossAttention", "attention"),
    _recbole("MultiHeadAttention", "attention", norm="post", mask="adds"),
    _recbole("TransformerLayer", "encoder", norm="post", mask="adds"),
)
