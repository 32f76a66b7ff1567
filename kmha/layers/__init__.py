"""Keras layers: weights, dropout, configuration and masks, around the mathematics of `kmha.core`.

>>> import kmha
>>> kmha.layers.MultiHeadAttention is kmha.MultiHeadAttention
True
"""

from kmha.layers import addons
from kmha.layers.course_functions import (
    FullyConnected,
    get_angles,
    positional_encoding,
    scaled_dot_product_attention,
)
from kmha.layers.decoder import Decoder, DecoderLayer
from kmha.layers.embedding import PositionalEncoding, TiedLogits, TokenEmbedding
from kmha.layers.encoder import Encoder, EncoderLayer
from kmha.layers.head_importance import ablation_importance, gradient_importance
from kmha.layers.masking import create_look_ahead_mask, create_padding_mask
from kmha.layers.multi_head_attention import MultiHeadAttention
from kmha.layers.projections import HeadMerge, HeadProjection
from kmha.layers.pruning import prune_heads, without_heads
from kmha.layers.transformer import Transformer
from kmha.layers.transformer_blocks import FeedForward, LayerNormalization

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "FullyConnected",
    "HeadMerge",
    "HeadProjection",
    "LayerNormalization",
    "MultiHeadAttention",
    "PositionalEncoding",
    "TiedLogits",
    "TokenEmbedding",
    "Transformer",
    "ablation_importance",
    "addons",
    "create_look_ahead_mask",
    "create_padding_mask",
    "get_angles",
    "gradient_importance",
    "positional_encoding",
    "prune_heads",
    "scaled_dot_product_attention",
    "without_heads",
]
