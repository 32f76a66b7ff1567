"""Masks and settings of blocks. `test_published.py` tests their mistakes."""

import keras
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.report import remarks

HIDDEN = {
    "attends": lambda logits, mask: keras.ops.where(mask, logits, -1e9),
    "hides": lambda logits, mask: keras.ops.where(mask, -1e9, logits),
    "adds": lambda logits, mask: logits + mask,
}


class Encoder(keras.layers.Layer):
    """An encoder layer whose mask, (B, 1, 1, S) or (B, 1, T, S), has a given meaning."""

    def __init__(self, d_model, num_heads, dff, meaning="attends", added=1e-6):
        super().__init__()
        self.num_heads, self.meaning = num_heads, meaning
        self.wq, self.wk, self.wv, self.wo = (keras.layers.Dense(d_model) for _ in range(4))
        self.ffn1, self.ffn2 = keras.layers.Dense(dff, activation="relu"), keras.layers.Dense(d_model)
        self.norm1, self.norm2 = (keras.layers.LayerNormalization(epsilon=added) for _ in range(2))

    def _heads(self, x):
        x = keras.ops.reshape(x, (*x.shape[:2], self.num_heads, x.shape[2] // self.num_heads))
        return keras.ops.swapaxes(x, 1, 2)

    def call(self, x, mask=None):
        query, key, value = (self._heads(layer(x)) for layer in (self.wq, self.wk, self.wv))
        logits = query @ keras.ops.swapaxes(key, 2, 3) / query.shape[-1] ** 0.5
        logits = logits if mask is None else HIDDEN[self.meaning](logits, mask)
        mixed = keras.ops.swapaxes(keras.ops.softmax(logits) @ value, 1, 2)
        x = self.norm1(x + self.wo(keras.ops.reshape(mixed, x.shape)))
        return self.norm2(x + self.ffn2(self.ffn1(x)))


@pytest.mark.parametrize("meaning", HIDDEN)
def test_meaning_of_a_mask(meaning):
    found = diagnose(Encoder, arguments={"meaning": meaning}, mask=meaning)
    assert found.right, (found.verdict, found.ids, found.errors)


class Told(Encoder):
    def __init__(self, d_model, num_heads, dff, epsilon=1e-12):
        super().__init__(d_model, num_heads, dff, added=epsilon)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("block", "arguments", "ids", "taken"),
    [
        (Encoder, {"added": 1e-3}, (), "0.001"),  # Keras' own
        (Encoder, {"added": 1e-6}, (), ""),  # the paper's code's
        (Encoder, {"added": 1e-5}, (), "1e-05"),  # an epsilon that many packages use
        (Encoder, {"added": 1e-7}, (), "1e-07"),
        (Encoder, {"added": 0.0}, ("norm-epsilon-0",), ""),
        (Told, {}, (), ""),
        (Told, {"epsilon": 1e-5}, (), "1e-05"),
    ],
)
def test_right_epsilon(block, arguments, ids, taken):
    found = diagnose(block, arguments=arguments)
    said = [remark for remark in remarks(found) if "epsilon" in remark]
    assert said == ([f"The epsilon of its normalizations is {taken}: taken as intended."] if taken else [])
    assert found.ids == ids
    assert found.right == (not ids)


@pytest.mark.parametrize(
    ("own", "ids"), [({}, ()), ({"eps": 1e-6}, ()), ({"eps": 1e-3}, ()), ({"eps": 0.0}, ("norm-epsilon-0",))]
)
def test_epsilon_of_torch(own, ids):
    nn = pytest.importorskip("torch").nn

    class Block(nn.TransformerEncoderLayer):
        def __init__(self, d_model, nhead, dim_feedforward):
            super().__init__(d_model, nhead, dim_feedforward, batch_first=True)
            self.norm1, self.norm2 = nn.LayerNorm(d_model, **own), nn.LayerNorm(d_model, **own)

        def forward(self, x):
            return super().forward(x)

    found = diagnose(Block)
    assert found.ids == ids
    assert found.right == (not ids)


@pytest.mark.parametrize(
    ("name", "id"), [("OverItems", "softmax-over-batch"), ("OfOpposite", "softmax-of-opposite-masked")]
)
def test_one_mistake_is_named_where_positions_are_hidden(candidate, name, id):
    """Both were said to be a mistake in the mask and another one."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    assert diagnose(candidate("torch_masked_blocks", name)(12, 3, 20)).ids == (id,)


def _eqx_list_of_heads(scale):
    eqx, jax = pytest.importorskip("equinox"), pytest.importorskip("jax")
    jnp = jax.numpy

    class One(eqx.Module):
        q_proj: jax.Array
        k_proj: jax.Array
        v_proj: jax.Array

        def __init__(self, width, size, key):
            drawn = jax.random.normal(key, (3, width, size))
            self.q_proj, self.k_proj, self.v_proj = drawn

        def __call__(self, x, visible):
            logits = (x @ self.q_proj) @ (x @ self.k_proj).T * self.q_proj.shape[1] ** scale
            return jax.nn.softmax(logits + jnp.log(visible)[None], -1) @ (x @ self.v_proj)

    class Layer(eqx.Module):
        attend: tuple
        proj: eqx.nn.Linear
        fc: list
        norms: list

        def __init__(self, width, num_heads, key):
            keys = jax.random.split(key, num_heads + 3)
            self.attend = tuple(One(width, width // num_heads, each) for each in keys[3:])
            self.proj = eqx.nn.Linear(width, width, key=keys[0])
            self.fc = [eqx.nn.Linear(width, 3 * width, key=keys[1]), eqx.nn.Linear(3 * width, width, key=keys[2])]
            self.norms = [eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width)]

        def __call__(self, x, visible):
            heads = jnp.concatenate([one(jax.vmap(self.norms[0])(x), visible) for one in self.attend], -1)
            x = x + jax.vmap(self.proj)(heads)
            inner = jax.nn.relu(jax.vmap(self.fc[0])(jax.vmap(self.norms[1])(x)))
            return x + jax.vmap(self.fc[1])(inner)

    return Layer


def test_a_block_with_a_list_of_heads_that_needs_a_mask():
    assert diagnose(_eqx_list_of_heads(-0.5)).right
    assert diagnose(_eqx_list_of_heads(0.0)).ids == ("scale-missing",)
