"""Modules of public threads, in own words: mistakes in scale, mask and softmax."""

import torch
from torch import nn
from torch.nn import functional


class PatchAttention(nn.Module):
    """FrancescoSaverioZuppichini/ViT#2: the scale comes after the softmax. With a mask it raises, as it did."""

    def __init__(self, emb_size=768, num_heads=8, dropout=0.0):
        super().__init__()
        self.emb_size, self.num_heads = emb_size, num_heads
        self.keys, self.queries, self.values, self.projection = (nn.Linear(emb_size, emb_size) for _ in range(4))
        self.att_drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        def heads(array):
            return array.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        queries, keys, values = heads(self.queries(x)), heads(self.keys(x)), heads(self.values(x))
        energy = torch.einsum("bhqd,bhkd->bhqk", queries, keys)
        if mask is not None:
            energy.mask_fill(~mask, torch.finfo(torch.float32).min)
        scaling = (self.emb_size // self.num_heads) ** -0.5
        scores = self.att_drop(torch.softmax(energy, dim=-1) * scaling)
        mixed = torch.einsum("bhqk,bhkd->bhqd", scores, values)
        return self.projection(mixed.transpose(1, 2).flatten(2))


class VisionAttention(nn.Module):
    """lucidrains/vit-pytorch#65: the scale is of the model's width in place of the head's."""

    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads, self.scale = heads, dim**-0.5
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.to_qkv(x).chunk(3, dim=-1)
        )
        scores = (torch.einsum("bhid,bhjd->bhij", query, key) * self.scale).softmax(dim=-1)
        return self.to_out(torch.einsum("bhij,bhjd->bhid", scores, value).transpose(1, 2).flatten(2))


class CombinedAttention(nn.Module):
    """rasbt/LLMs-from-scratch#856: divided by O ** -0.5, so that the logits are multiplied by the root."""

    def __init__(self, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.num_heads, self.head_dim, self.d_out = num_heads, d_out // num_heads, d_out
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        batch, length, _ = x.shape
        packed = self.qkv(x).view(batch, length, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        query, key, value = packed.unbind(0)
        logits = (query @ key.transpose(-2, -1)).masked_fill(self.mask.bool()[:length, :length], -torch.inf)
        scores = torch.softmax(logits / key.shape[-1] ** -0.5, dim=-1)
        mixed = (self.dropout(scores) @ value).transpose(1, 2).contiguous().view(batch, length, self.d_out)
        return self.proj(mixed)


class DiffusionAttention(nn.Module):
    """labmlai/annotated_deep_learning_paper_implementations#146: the softmax runs over axis 1, the queries.

    There, the input is an image, flattened to (B, h·w, C), and it is added to the result; this is what stands between.
    """

    def __init__(self, n_channels, n_heads=1, d_k=None):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_k or n_channels
        self.projection = nn.Linear(n_channels, n_heads * self.d_k * 3)
        self.output = nn.Linear(n_heads * self.d_k, n_channels)
        self.scale = self.d_k**-0.5

    def forward(self, x):
        batch, length, _ = x.shape
        packed = self.projection(x).view(batch, length, self.n_heads, 3 * self.d_k)
        query, key, value = torch.chunk(packed, 3, dim=-1)
        scores = torch.einsum("bihd,bjhd->bijh", query, key) * self.scale
        scores = scores.softmax(dim=1)
        mixed = torch.einsum("bijh,bjhd->bihd", scores, value)
        return self.output(mixed.reshape(batch, length, self.n_heads * self.d_k))


class FirstAxisAttention(nn.Module):
    """jadore801120/attention-is-all-you-need-pytorch#52: the softmax of (H·B, T, S) runs over its first axis.

    With no `dim` given, torch took the first axis of three. The heads come before the batch.
    """

    def __init__(self, n_head, d_model, d_k, d_v):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs, self.w_ks = nn.Linear(d_model, n_head * d_k), nn.Linear(d_model, n_head * d_k)
        self.w_vs, self.fc = nn.Linear(d_model, n_head * d_v), nn.Linear(n_head * d_v, d_model)

    def forward(self, q, k, v, mask=None):
        batch, length = q.shape[:2]

        def heads(array):
            array = array.view(batch, -1, self.n_head, self.d_k)
            return array.permute(2, 0, 1, 3).reshape(self.n_head * batch, -1, self.d_k)

        q, k, v = heads(self.w_qs(q)), heads(self.w_ks(k)), heads(self.w_vs(v))
        logits = torch.bmm(q, k.transpose(1, 2)) / self.d_k**0.5
        if mask is not None:
            logits = logits.masked_fill(mask.repeat(self.n_head, 1, 1), -torch.inf)
        scores = torch.softmax(logits, dim=0)
        mixed = torch.bmm(scores, v).view(self.n_head, batch, length, self.d_v)
        return self.fc(mixed.permute(1, 2, 0, 3).reshape(batch, length, -1)), scores


class TinyFillAttention(nn.Module):
    """hyunwoongko/transformer#10: hidden logits become -e, with e = 1e-12, in place of a large negative number."""

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.w_q, self.w_k, self.w_v, self.w_concat = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None, e=1e-12):
        q, k, v = (
            layer(part).unflatten(-1, (self.n_head, -1)).transpose(1, 2)
            for layer, part in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        logits = q @ k.transpose(2, 3) / q.size(-1) ** 0.5
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -e)
        return self.w_concat((torch.softmax(logits, dim=-1) @ v).transpose(1, 2).flatten(2))


class DecoderAttention(nn.Module):
    """hyunwoongko/transformer#40: the padding mask gets the shape (B, 1, T, 1), so that it hides rows, not columns.

    The mask is made as in `make_trg_mask`, and the attention is that of the decoder's first sublayer.
    """

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.w_q, self.w_k, self.w_v, self.w_concat = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, padding_mask=None):
        query, key, value = (
            layer(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for layer in (self.w_q, self.w_k, self.w_v)
        )
        logits = query @ key.transpose(2, 3) / query.size(-1) ** 0.5
        mask = torch.ones(x.size(1), x.size(1)).tril().bool()
        if padding_mask is not None:
            mask = padding_mask.unsqueeze(1).unsqueeze(3) & mask
        logits = logits.masked_fill(mask == 0, -10000)
        return self.w_concat((torch.softmax(logits, dim=-1) @ value).transpose(1, 2).flatten(2))


class TiledMaskAttention(nn.Module):
    """line/lighthouse#77: the mask for `nn.MultiheadAttention` is tiled, where each item's must be repeated."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.self_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)

    def forward(self, query, key, value, attn_mask=None):
        if attn_mask is not None:
            attn_mask = attn_mask.repeat(self.nhead, 1, 1)
        return self.self_attn(query, key, value, attn_mask=attn_mask)[0]


class ThrownAwayAttention(nn.Module):
    """lucidrains/flamingo-pytorch#10: the result of `masked_fill` is thrown away, so that the mask does nothing."""

    def __init__(self, dim, heads=8, dim_head=64):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_k = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_v = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x, mask=None):
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.to_q, self.to_k, self.to_v)
        )
        logits = torch.einsum("bhid,bhjd->bhij", query * self.scale, key)
        if mask is not None:
            logits.masked_fill(~mask, -torch.finfo(logits.dtype).max)
        scores = logits.softmax(dim=-1)
        return self.to_out(torch.einsum("bhij,bhjd->bhid", scores, value).transpose(1, 2).flatten(2))


def masked_after(query, key, value, mask=None):
    """huggingface/pytorch-image-models#2236: the mask is applied to the scores, and rows are not divided anew."""
    scores = (query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)).softmax(dim=-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    return scores @ value


def infinite_after(query, key, value, mask=None):
    """lucidrains/memory-compressed-attention#2: after the softmax, what is hidden is filled with -float("-inf")."""
    scores = (torch.einsum("bhid,bhjd->bhij", query, key) * query.shape[-1] ** -0.5).softmax(dim=-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -float("-inf"))
    return torch.einsum("bhij,bhjd->bhid", scores, value)


def segmentation_scores(query, key, value, mask=None):
    """facebookresearch/detr#247: the weights are flattened from axis 2, so that heads and keys share one softmax.

    There, the weights themselves are the result, (B, T, H, S); here, they mix values, as attention does.
    """
    weights = torch.einsum("bnqc,bnkc->bqnk", query * query.shape[-1] ** -0.5, key)
    if mask is not None:
        weights = weights.masked_fill(~mask.transpose(1, 2), -torch.inf)
    weights = functional.softmax(weights.flatten(2), dim=-1).view_as(weights)
    return torch.einsum("bqnk,bnkc->bnqc", weights, value)
