import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.caches.cache_diagnosis import examine
from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.caches.protocols import find_decoding, has_cache


def _is_right(thing):
    decoding = find_decoding(thing, {})
    assert decoding is not None
    found = examine(decoding, "candidate", 0, lambda text: None)
    assert found.answered
    return found.right


@pytest.mark.parametrize(
    ("name", "made"),
    [("returned", "None"), ("two_caches", "None"), ("in_a_dict", "None"), ("shared_by_requests", "{}")],
)
def test_how_functions_take_an_empty_cache(candidate, name, made):
    found = find_decoding(candidate("array_caches", name), {})
    assert found.says == f"its cache made as {made}"
    assert found.width


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Returned", "its cache made as None"),
        ("Kept", "its cache made as its own"),
        ("Preallocated", "its cache made as its own, positions as int, and a mask (T, S), added"),
        ("Model", "its cache made as init_cache(), positions as int"),
    ],
)
def test_how_modules_take_a_cache(candidate, name, says):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    options = {"d_in": 12, "d_out": 12, "context_length": 64, "num_heads": 2} if name == "Kept" else {}
    assert find_decoding(candidate("torch_caches", name)(**options), {}).says == says


def test_a_caller_that_appends(candidate):
    """Nothing is overwritten in a layer that returns the keys and values of its own positions alone."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    found = diagnose(candidate("torch_caches", "ReturnsNew")())
    assert found.right, found
    assert "Its cache is right, if the caller appends what a call returns" in str(found).replace("\n", " ")
    assert "cache-loses-last" in diagnose(candidate("torch_caches", "ReturnsNew")(wrong="last lost")).ids


def test_a_class_that_takes_a_configuration(candidate):
    pytest.importorskip("torch")
    assert diagnose(candidate("torch_caches", "OfConfig")).ids == ("cache-causal-corner",)


def test_a_layer_forgets_its_own_cache_between_calls(candidate):
    pytest.importorskip("torch")
    assert diagnose(candidate("torch_caches", "Remembers")).right


def test_no_cache():
    def attention(query, key, value, mask=None):
        return value

    assert not has_cache(attention)
    assert find_decoding(attention, {}) is None


def test_a_call_that_gives_no_cache_back_is_not_driven(candidate):
    assert find_decoding(candidate("array_caches", "lost"), {}) is None


def test_a_module_is_left_as_it_was(candidate):
    torch = pytest.importorskip("torch")
    module = candidate("torch_caches", "Preallocated")()
    assert _is_right(module)
    assert not module.cache_k.any()
    assert module.wq.weight.dtype is torch.float32


@pytest.mark.slow
def test_our_own_cache():
    import keras

    from kmha.layers import Decoder, cache

    decoder = Decoder(2, 6, 3, 7, target_vocab_size=11, maximum_position_encoding=32, dropout_rate=0.0, pad_id=None)
    source = np.random.default_rng(0).normal(size=(3, 5, 6))
    decoder(np.ones((3, 2), int), source)

    def step(tokens, state, position):
        outputs = []
        for index in range(tokens.shape[1]):
            features, state = cache.step(decoder, keras.ops.convert_to_tensor(tokens[:, index], "int32"), state)
            outputs.append(np.array(features))
        return np.stack(outputs, axis=1), state

    decoding = Decoding(
        lambda ids: np.array(decoder(ids, source[: len(ids)], return_attention_scores=False)),
        lambda batch, length: cache.start(decoder, keras.ops.convert_to_tensor(source[:batch])),
        step,
        vocabulary=11,
        dtype="float32",
    )
    assert _is_right(decoding)


def test_keras_hub():
    hub = pytest.importorskip("keras_hub")
    attention = hub.layers.CachedMultiHeadAttention(num_heads=2, key_dim=6)
    attention(np.zeros((2, 3, 12)), np.zeros((2, 3, 12)))
    assert _is_right(attention)
    decoder = hub.layers.TransformerDecoder(13, 2)
    decoder(np.zeros((2, 3, 12)))
    assert _is_right(decoder)


def test_litgpt():
    litgpt = pytest.importorskip("litgpt")
    sizes = {"block_size": 32, "vocab_size": 19, "n_layer": 2, "n_head": 4, "n_embd": 16, "n_query_groups": 2}
    parts = {"norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP", "intermediate_size": 24, "bias": False}
    assert _is_right(litgpt.GPT(litgpt.Config(**sizes, **parts, rotary_percentage=1.0)))


@pytest.mark.slow
def test_flax():
    linen = pytest.importorskip("flax.linen")
    assert _is_right(linen.MultiHeadDotProductAttention(num_heads=2, qkv_features=12, out_features=12, decode=True))


@pytest.mark.slow
def test_flax_nnx():
    nnx = pytest.importorskip("flax.nnx")
    assert _is_right(nnx.MultiHeadAttention(num_heads=2, in_features=12, decode=True, rngs=nnx.Rngs(0)))
