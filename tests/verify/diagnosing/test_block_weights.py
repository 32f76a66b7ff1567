"""Blocks whose weights have other names, built blocks, and design choices. The packages' own blocks are in the zoo."""

import pytest

from kmha.verify import diagnose

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - only if torch is installed


class Norm(nn.Module):
    """Divides by the unbiased deviation plus epsilon."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class RootMeanSquare(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.g = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.g


class Gated(nn.Module):
    def __init__(self, features, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = (nn.Linear(features, inner), nn.Linear(inner, features), nn.Linear(features, inner))

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Attention(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(features, 3 * features), nn.Linear(features, features)

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = self.scores(query @ key.mT / query.shape[-1] ** 0.5) @ value
        return self.proj(mixed.transpose(1, 2).flatten(2))

    def scores(self, logits):
        return torch.softmax(logits, -1)


class WithoutSoftmax(Attention):
    """Its code mentions a causal mask, which is one more design choice to try."""

    is_causal = False

    def scores(self, logits):
        return logits.tril() if self.is_causal else logits


class Block(nn.Module):
    """Pre-norm, with these kinds of normalization and feed-forward network."""

    norm, wrong = Norm, 0.0

    def __init__(self, dim, num_heads, ff_dim):
        super().__init__()
        self.attn, self.ff = Attention(dim, num_heads), self.forward_network(dim, ff_dim)
        self.ln1, self.ln2 = self.norm(dim), self.norm(dim)

    def forward_network(self, dim, ff_dim):
        return nn.Sequential(nn.Linear(dim, ff_dim), nn.GELU(), nn.Linear(ff_dim, dim))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return (1 - self.wrong) * x + self.ff(self.ln2(x))


class Llama(Block):
    norm = RootMeanSquare

    def forward_network(self, dim, ff_dim):
        return Gated(dim, ff_dim)


class MadeInAnotherOrder(Block):
    def __init__(self, dim, num_heads, ff_dim):
        super().__init__(dim, num_heads, ff_dim)
        del self.ln1
        self.ln1 = self.norm(dim)  # after ln2


class WithoutResidual(Block):
    wrong = 1.0


class WithoutScores(Block):
    norm = nn.LayerNorm

    def __init__(self, dim, num_heads, ff_dim):
        super().__init__(dim, num_heads, ff_dim)
        self.attn = WithoutSoftmax(dim, num_heads)


class Parallel(Block):
    norm = nn.LayerNorm

    def forward(self, x):
        return x + self.attn(self.ln1(x)) + self.ff(self.ln1(x))


class NormOfOutput(Block):
    """As in Swin V2, and in an example of keras.io."""

    norm = nn.LayerNorm

    def forward(self, x):
        x = x + self.ln1(self.attn(x))
        return (1 - self.wrong) * x + self.ln2(self.ff(x))


class NormOfOutputWithoutResidual(NormOfOutput):
    wrong = 1.0


@pytest.mark.parametrize(
    ("block", "choices"),
    [
        (NormOfOutput, {"res-post-norm", "activation-gelu"}),
        (Block, {"pre-norm", "activation-gelu", "unbiased-deviation"}),
        (Llama, {"pre-norm", "activation-silu", "root-mean-square"}),
        (Parallel, {"pre-norm", "activation-gelu", "parallel-one-norm"}),
        (MadeInAnotherOrder, {"pre-norm", "activation-gelu", "unbiased-deviation"}),
    ],
)
@pytest.mark.parametrize("built", [False, True])
def test_choices_are_stated_and_not_accused(block, choices, built):
    found = diagnose(block(12, 3, 20) if built else block)
    assert found.right, found.ids
    assert {*found.convention.choices} == choices


def test_a_mistake_is_named_beside_choices():
    found = diagnose(WithoutResidual)
    assert "residual" in found.ids[0]
    assert "pre-norm" in found.convention.choices


def test_a_mistake_is_named_beside_a_normalization_of_each_output():
    found = diagnose(NormOfOutputWithoutResidual)
    assert found.ids == ("residual-missing-feed-forward",)
    assert "res-post-norm" in found.convention.choices


def test_a_mistake_is_named_beside_choices_that_come_nearer_without_it():
    found = diagnose(WithoutScores)
    assert found.ids == ("softmax-missing",)
    assert {*found.convention.choices} == {"pre-norm", "activation-gelu"}


def test_a_choice_other_than_the_expected_one_is_a_mistake():
    class Usual(Block):
        norm = nn.LayerNorm

    assert diagnose(Usual, expect=["pre-norm"]).right
    assert diagnose(Usual, expect=["post-norm"]).ids == ("norm-before",)
    assert diagnose(NormOfOutput, expect=["post-norm"]).ids == ("norm-inside-residual",)
    with pytest.raises(ValueError, match=r"design choice, such as pre-norm or .* Received: 'prenorm'"):
        diagnose(Usual, expect=["prenorm"])


def test_a_built_block_keeps_its_weights():
    layer = nn.TransformerEncoderLayer(12, 3, 24)
    before = [parameter.clone() for parameter in layer.parameters()]
    assert diagnose(layer).right
    assert all(torch.equal(one, other) for one, other in zip(before, layer.parameters(), strict=True))


def test_masks_of_torch_hide():
    found = diagnose(nn.TransformerDecoderLayer(12, 3, 24, batch_first=True))
    assert found.right
    assert not found.errors
    assert found.convention.mask_meaning == "hides"


@pytest.mark.parametrize("name", ["dense", "mlp"])
def test_the_in_proj_of_a_feed_forward_network_packs_nothing(candidate, name):
    found = diagnose(candidate("torch_wrapped", "Block")(12, 3, 20, name))
    assert found.right, found
    assert found.candidate.chain == "encoder"
