"""Keras layers: weights, dropout, configuration and masks, around the mathematics of `kmha.core`.

>>> import kmha
>>> kmha.layers.MultiHeadAttention is kmha.MultiHeadAttention
True
"""

from kmha.layers import addons
from kmha.layers.multi_head_attention import MultiHeadAttention
from kmha.layers.projections import HeadMerge, HeadProjection

__all__ = ["HeadMerge", "HeadProjection", "MultiHeadAttention", "addons"]
