"""A bias of relative positions must be that of the offset, whatever index the code gives an offset."""

import pytest

from kmha.verify import diagnose

torch = pytest.importorskip("torch")
nn = torch.nn


class Relative(nn.Module):
    """Attention whose table has a row for each clipped offset."""

    furthest = 3
    causal = False

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.rel_bias = nn.Parameter(torch.randn(*self.shape()))

    def shape(self):
        return 2 * self.furthest + 1, self.heads

    def offsets(self, length):
        places = torch.arange(length)
        return (places[None] - places[:, None]).clamp(-self.furthest, self.furthest) + self.furthest

    def bias(self, length):
        return self.rel_bias[self.offsets(length)].permute(2, 0, 1)

    def forward(self, x):
        query, key, value = (
            each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        logits = query @ key.mT / query.shape[-1] ** 0.5 + self.bias(x.shape[1])
        if self.causal:
            logits = logits.masked_fill(torch.ones(logits.shape[-2:]).triu(1).bool(), -torch.inf)
        return self.out((logits.softmax(-1) @ value).transpose(1, 2).flatten(2))


class HeadsFirst(Relative):
    def shape(self):
        return self.heads, 2 * self.furthest + 1

    def bias(self, length):
        return self.rel_bias[:, self.offsets(length)]


class Backwards(Relative):
    """From the key to the query, which trains as well."""

    def offsets(self, length):
        return super().offsets(length).T


class Buckets(Relative):
    """Far offsets share a row, in powers of 2, as in T5."""

    def offsets(self, length):
        places = torch.arange(length)
        far = places[None] - places[:, None]
        return (far.abs() + 1).log2().long().clamp(max=3) * 2 - (far > 0).long() * (far != 0).long() + 0 * far


class Causal(Relative):
    causal = True


class Reshaped(Relative):
    def bias(self, length):
        return self.rel_bias[self.offsets(length)].reshape(self.heads, length, length)


class CausalReshaped(Reshaped):
    causal = True


class OfPlaces(Relative):
    """The bias is that of the key's place, not of the offset."""

    def offsets(self, length):
        return torch.arange(length).clamp(max=2 * self.furthest).expand(length, length)


class OfProducts(Relative):
    """A slip: the product of two places instead of their difference."""

    def offsets(self, length):
        places = torch.arange(length)
        return (places[None] * places[:, None]).clamp(max=2 * self.furthest)


@pytest.mark.parametrize("layer", [Relative, HeadsFirst, Backwards, Buckets, Causal])
def test_a_bias_of_the_offset_is_right(layer):
    assert diagnose(layer).right


@pytest.mark.parametrize("layer", [Reshaped, CausalReshaped, OfProducts])
def test_a_bias_of_something_else_is_named(layer):
    found = diagnose(layer)
    assert (found.verdict, found.ids) == ("known", ("relative-bias-misplaced",))
    assert "`rel_bias` alone" in str(found)


def test_a_table_of_places_by_a_name_that_does_not_tell_is_no_mistake():
    class Absolute(OfPlaces):
        def __init__(self, width, heads):
            super().__init__(width, heads)
            self.pos_table = self.rel_bias
            del self.rel_bias

        def bias(self, length):
            return self.pos_table[self.offsets(length)].permute(2, 0, 1)

    assert diagnose(Absolute).right
