"""Additive attention, whose logits are v · tanh(W q + U k)."""

import keras
import pytest
from keras import ops

from kmha.verify import diagnose

torch = pytest.importorskip("torch")


class Aligner(torch.nn.Module):
    """Aligns a decoder's states with an encoder's, all at once. Lengths tell how many of these are real."""

    def __init__(self, hidden_size):
        super().__init__()
        self.of_state = torch.nn.Linear(hidden_size, hidden_size, bias=False)
        self.of_memory = torch.nn.Linear(hidden_size, hidden_size)
        self.energy = torch.nn.Linear(hidden_size, 1, bias=False)

    def forward(self, queries, keys, values, valid_lens=None):
        hidden = torch.tanh(self.of_state(queries)[:, :, None] + self.of_memory(keys)[:, None])
        energies = self.energy(hidden)[..., 0]
        if valid_lens is not None:
            energies = self.hide(energies, torch.arange(keys.shape[1]) < valid_lens[:, None, None])
        return torch.softmax(energies, dim=2) @ values

    def hide(self, energies, real):
        return energies.masked_fill(~real, float("-inf"))


class Multiplying(Aligner):
    def hide(self, energies, real):
        return energies * torch.tanh(1e9 * real)  # 0 or 1


class Concatenating(torch.nn.Module):
    """Attends from one state of a decoder to the outputs of an encoder."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.joint = torch.nn.Linear(2 * hidden_dim, hidden_dim)
        self.vector = torch.nn.Parameter(torch.rand(hidden_dim))

    def forward(self, state, outputs):
        both = torch.cat((state[:, None].expand_as(outputs), outputs), dim=2)
        energies = torch.tanh(self.joint(both)) @ self.vector
        weights = self.normalise(energies)
        return (weights[:, None] @ outputs)[:, 0], weights

    def normalise(self, energies):
        return energies.softmax(1)


class OverItems(Concatenating):
    def normalise(self, energies):
        return torch.tanh(energies).softmax(0)


class Pooling(keras.layers.Layer):
    """One vector for a sequence."""

    axis = 1

    def __init__(self, units):
        super().__init__()
        self.project, self.score = keras.layers.Dense(units, activation="tanh"), keras.layers.Dense(1)

    def call(self, sequence):
        weights = ops.softmax(self.score(self.project(sequence)), axis=self.axis)
        return ops.sum(weights * sequence, axis=1)


class PoolingOverOne(Pooling):
    """The projection has the activation tanh."""

    axis = 2


class Scaled(torch.nn.Module):
    """Divides the energies, which is a choice."""

    def __init__(self, dim):
        super().__init__()
        self.w, self.u, self.v = (torch.nn.Linear(dim, out, bias=False) for out in (dim, dim, 1))

    def forward(self, query, memory):
        energies = self.v(torch.tanh(self.w(query)[:, :, None] + self.u(memory)[:, None]))[..., 0]
        return torch.softmax(energies / query.shape[-1] ** 0.5, -1) @ memory


class Gated(torch.nn.Module):
    """Is no attention, although its weights have the same shapes."""

    def __init__(self, dim):
        super().__init__()
        self.w, self.u, self.v = (torch.nn.Linear(dim, out, bias=False) for out in (dim, dim, 1))

    def forward(self, query, memory):
        return torch.tanh(self.w(query)) * self.v(self.u(memory)).mean(1, keepdim=True)


@pytest.mark.parametrize("kind", [Aligner, Concatenating, Pooling])
def test_right_layers_are_right(kind):
    found = diagnose(kind)
    assert found.verdict == "right"
    assert "Additive attention" in str(found)


def test_a_right_built_layer_is_right():
    assert diagnose(Concatenating(12)).verdict == "right"


def test_a_softmax_over_one_weight_is_named():
    assert diagnose(PoolingOverOne).ids == ("softmax-over-one",)


def test_mistakes_of_masks_are_named():
    assert "mask-zeroes-logits" in {id for match in diagnose(Multiplying).matches for id in match.ids}


@pytest.mark.parametrize("kind", [Scaled, Gated, OverItems])
def test_another_design_is_not_accused(kind):
    assert diagnose(kind).verdict == "unjudged"


class General(torch.nn.Module):
    """Luong's score "general", of states of a decoder and the outputs of an encoder."""

    axis = 2

    def __init__(self, hidden_size):
        super().__init__()
        self.general = torch.nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, decoder_states, encoder_outputs, mask=None):
        energies = decoder_states @ self.general(encoder_outputs).mT
        if mask is not None:
            energies = self.hide(energies, mask[:, None])
        weights = energies.softmax(self.axis)
        return self.output(weights @ encoder_outputs, decoder_states), weights

    def hide(self, energies, mask):
        return energies.masked_fill(~mask, -1e9)

    def output(self, context, states):
        return context


class GeneralMultiplying(General):
    def hide(self, energies, mask):
        return energies * mask


class GeneralOverQueries(General):
    axis = 1


class Combined(General):
    def __init__(self, hidden_size):
        super().__init__(hidden_size)
        self.combine = torch.nn.Linear(2 * hidden_size, hidden_size)

    def output(self, context, states):
        return torch.tanh(self.combine(torch.cat([context, states], dim=2)))


class OneState(torch.nn.Module):
    """Bilinear, of the last state (B, I) of a decoder."""

    axis = 1

    def __init__(self, hidden_size):
        super().__init__()
        self.bilinear = torch.nn.Parameter(torch.rand(hidden_size, hidden_size))

    def forward(self, hidden, outputs):
        energies = torch.einsum("bi,ij,bsj->bs", hidden, self.bilinear, outputs)
        return torch.einsum("bs,bsi->bi", energies.softmax(self.axis), outputs)


class OneStateOverItems(OneState):
    axis = 0


@pytest.mark.parametrize("layer", [General, Combined, OneState])
def test_right_multiplicative_attention(layer):
    found = diagnose(layer)
    assert found.right
    assert "Multiplicative attention, with the logits q · W k and the keys as values: taken as intended." in str(found)


@pytest.mark.parametrize(
    ("layer", "id"), [(GeneralMultiplying, "mask-zeroes-logits"), (GeneralOverQueries, "softmax-over-queries")]
)
def test_mistakes_of_multiplicative_attention(layer, id):
    assert diagnose(layer).ids == (id,)


class Doubled(General):
    def output(self, context, states):
        return context * 2


@pytest.mark.parametrize("kind", [Doubled, OneStateOverItems])
def test_another_product_is_not_called_wrong(kind):
    assert diagnose(kind).verdict == "unjudged"
