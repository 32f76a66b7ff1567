"""A pre-norm block whose sublayers stand in wrappers, and whose feed-forward network has an `in_proj`."""

from torch import nn


class Residual(nn.Module):
    def __init__(self, fn, width):
        super().__init__()
        self.fn, self.norm = fn, nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x):
        return x + self.fn(self.norm(x))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.num_heads, self.in_proj, self.out_proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in self.in_proj(x).chunk(3, -1))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


class Dense(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.out_proj(self.in_proj(x).relu())


class Block(nn.Module):
    def __init__(self, width, heads, inner, name="dense"):
        super().__init__()
        self.attn, self.name = Residual(Attention(width, heads), width), name
        setattr(self, name, Residual(Dense(width, inner), width))

    def forward(self, x):
        return getattr(self, self.name)(self.attn(x))
