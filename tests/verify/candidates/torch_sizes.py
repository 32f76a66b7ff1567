"""torch modules whose sizes are not arguments, or that take a fixed number of positions. `scale=False` is a mistake."""

import dataclasses

import torch
from torch import nn

n_head, n_embd, block_size = 4, 32, 8
SETTINGS = {"attention_heads": 3, "features": 12}


@dataclasses.dataclass
class Config:
    n_embd: int = 24
    n_head: int = 3
    block_size: int = 16


class Base(nn.Module):
    """Self-attention that asks `heads_of(x)` for its number of heads, and `hidden(T)` for the positions to hide."""

    def __init__(self, width, scale=True):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.scale = scale

    def hidden(self, length):
        return None

    def split(self, x):
        heads = self.heads_of(x)
        return x.view(*x.shape[:2], heads, x.shape[-1] // heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.q, self.k, self.v))
        logits = q @ k.transpose(-2, -1) / (q.shape[-1] ** 0.5 if self.scale else 1)
        hidden = self.hidden(x.shape[1])
        if hidden is not None:
            logits = logits.masked_fill(hidden, float("-inf"))
        return self.out((logits.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class OfModule(Base):
    def __init__(self, scale=True):
        super().__init__(n_embd, scale)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def heads_of(self, x):
        return n_head

    def hidden(self, length):
        return self.tril[:length, :length] == 0


class OfDict(Base):
    def __init__(self, scale=True):
        super().__init__(SETTINGS["features"], scale)

    def heads_of(self, x):
        return SETTINGS["attention_heads"]


class OfClass(Base):
    num_heads = 3

    def __init__(self, d_model, scale=True):
        super().__init__(d_model, scale)

    def heads_of(self, x):
        return self.num_heads


class OfConfig(Base):
    """Read the number of heads in the call alone, and never crop the mask."""

    def __init__(self, config, scale=True):
        super().__init__(config.n_embd, scale)
        self.config = config
        self.register_buffer("future", torch.triu(torch.ones(config.block_size, config.block_size), 1).bool())

    def heads_of(self, x):
        return self.config.n_head

    def hidden(self, length):
        return self.future


class Uncropped(Base):
    def __init__(self, d_model, num_heads, context, scale=True):
        super().__init__(d_model, scale)
        self.num_heads = num_heads
        self.register_buffer("past", torch.tril(torch.ones(context, context)))

    def heads_of(self, x):
        return self.num_heads

    def hidden(self, length):
        return self.past == 0


class Written(nn.Module):
    """Write the number of heads as a number."""

    def __init__(self, d_model, scale=True):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.scale = scale

    def forward(self, x):
        items, length, width = x.shape
        q, k, v = (f(x).view(items, length, 4, width // 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        logits = q @ k.transpose(-2, -1) / ((width // 4) ** 0.5 if self.scale else 1)
        return self.out((logits.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class Silent(nn.Module):
    """Never state the number of heads where kmha reads it."""

    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (torch.stack(f(x).chunk(4, -1), 1) for f in (self.q, self.k, self.v))
        scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out(torch.cat((scores @ v).unbind(1), -1))


class Block(nn.Module):
    def __init__(self, scale=True):
        super().__init__()
        self.attention = OfModule(scale)
        self.first, self.second = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.forward_layers = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.forward_layers(self.second(x))


class UncroppedBlock(nn.Module):
    def __init__(self, d_model, num_heads, seq_len, scale=True):
        super().__init__()
        self.attention = Uncropped(d_model, num_heads, seq_len, scale)
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.fc1, self.fc2 = nn.Linear(d_model, 2 * d_model), nn.Linear(2 * d_model, d_model)

    def forward(self, x):
        x = self.first(x + self.attention(x))
        return self.second(x + self.fc2(self.fc1(x).relu()))


class SingleHeadBlock(nn.Module):
    """Have one head, and no argument that says so."""

    def __init__(self, d_model, d_ff, scale=True):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.scale = scale

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = (q @ k.transpose(-2, -1) / (q.shape[-1] ** 0.5 if self.scale else 1)).softmax(-1)
        x = self.norm1(x + self.out(scores @ v))
        return self.norm2(x + self.fc2(self.fc1(x).relu()))


class Particular(SingleHeadBlock):
    """Need more than sizes: whether to have biases, and the scale of its first weights."""

    def __init__(self, d_model, d_ff, bias, c_proj_std):
        super().__init__(d_model, d_ff)
        if not bias:
            self.out = nn.Linear(d_model, d_model, bias=False)
        nn.init.normal_(self.out.weight, std=c_proj_std)


class SplitsByRearrange(nn.Module):
    """Layers of einops split and merge the heads."""

    def __init__(self, dim, dim_head=64, heads=8):
        from einops.layers.torch import Rearrange

        super().__init__()
        width = dim_head * heads
        split = Rearrange("b n (r h d) -> r b h n d", h=heads, r=3)
        self.scale, self.to_qkv = dim_head**-0.5, nn.Sequential(nn.Linear(dim, 3 * width, bias=False), split)
        self.to_out = nn.Sequential(Rearrange("b h n d -> b n (h d)"), nn.Linear(width, dim))

    def forward(self, x):
        q, k, v = self.to_qkv(x)
        return self.to_out((q @ k.transpose(-1, -2) * self.scale).softmax(-1) @ v)


class StatesItsScale(nn.Module):
    """Only its scale tells how many heads a function makes of its features."""

    def __init__(self, dim, dim_head=64, heads=8):
        super().__init__()
        width = dim_head * heads
        self.scale = dim_head**-0.5
        self.to_q, self.to_k, self.to_v, self.to_out = (
            nn.Linear(*sizes) for sizes in (*3 * [(dim, width)], (width, dim))
        )
        self.split = lambda x: x.unflatten(-1, (heads, dim_head)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.to_q, self.to_k, self.to_v))
        return self.to_out((q @ k.transpose(-1, -2) * self.scale).softmax(-1).matmul(v).transpose(1, 2).flatten(2))


class StatesItsScaleUnscaled(StatesItsScale):
    def __init__(self, dim, dim_head=64, heads=8):
        super().__init__(dim, dim_head, heads)
        self.scale = dim**-0.5


class ProjectsOutputsAlone(nn.Module):
    """Its queries, keys and values come projected."""

    def __init__(self, features, head_features, num_heads, scaled=True):
        super().__init__()
        self.num_heads, self.scale = num_heads, head_features**-0.5 if scaled else 1.0
        self.to_out = nn.Linear(head_features * num_heads, features, bias=False)

    def forward(self, q, k, v, mask=None):
        q, k, v = (x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
        logits = q @ k.transpose(-1, -2) * self.scale
        logits = logits if mask is None else logits.masked_fill(~mask, -1e9)
        return self.to_out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class ProjectsOutputsOfItself(ProjectsOutputsAlone):
    """Its projections of query, key and value are forgotten."""

    def forward(self, x):
        return super().forward(x, x, x)
