"""Keras' own tests for the built-in layer, unmodified, run against ours.

The installed wheel carries the file; its cases see our class wherever they say `layers.MultiHeadAttention`. Each
passes, or stands in `EXPECTED_FAILURES` with its reason; one that starts to pass or to fail anew breaks this test.
"""

import types

import pytest
from keras.src import layers
from keras.src.layers.attention import multi_head_attention_test as peer

import kmha

pytestmark = [
    pytest.mark.tensorflow,
    # Keras' tests raise warnings, and one counts them. These warnings are known.
    pytest.mark.filterwarnings("default"),
    pytest.mark.filterwarnings("ignore:When providing .inputs. as a dict"),
    pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer"),
    pytest.mark.filterwarnings("ignore:__array__ implementation"),
]

KERNEL_SHAPE = "sets kernels of the built-in's shape, (I, H, O); with H = I = O the shapes fit, and the numbers do not"
EXPECTED_FAILURES = {
    "test_correctness_disable_flash_attention": KERNEL_SHAPE,
    "test_correctness_enable_flash_attention": KERNEL_SHAPE,
}


class _LayersWithOurs(types.ModuleType):
    """`keras.src.layers`, but for the class under test."""

    MultiHeadAttention = kmha.MultiHeadAttention

    def __getattr__(self, name):
        return getattr(layers, name)


@pytest.fixture(autouse=True)
def _ours_in_its_place(monkeypatch):
    monkeypatch.setattr(peer, "layers", _LayersWithOurs("layers"))


class TestKerasOwn(peer.MultiHeadAttentionTest):
    """Every test of the peer's class."""


for _name, _reason in EXPECTED_FAILURES.items():
    setattr(
        TestKerasOwn,
        _name,
        pytest.mark.xfail(reason=_reason, strict=True, raises=AssertionError)(getattr(TestKerasOwn, _name)),
    )


def test_expected_failures_are_tests_of_the_peer():
    assert set(EXPECTED_FAILURES) <= set(dir(peer.MultiHeadAttentionTest))


def test_the_peer_is_whole():
    names = [name for name in dir(peer.MultiHeadAttentionTest) if name.startswith("test_")]
    assert len(names) >= 48, "Keras' file has lost tests: look whether they moved"
