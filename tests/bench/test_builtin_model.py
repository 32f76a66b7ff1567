import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from kmha.bench.builtin_model import builtin, compiled, recomputing  # noqa: E402
from kmha.bench.cases import ModelRow  # noqa: E402

ROW = ModelRow(2, 8, source=7, width=12, heads=3, layers=2, feed_forward=10, vocabulary=23)


@pytest.fixture
def model():
    return builtin(ROW)[0]


def _ids(length, seed=0):
    return np.random.default_rng(seed).integers(3, 23, (2, length), dtype="int32")


def test_decoding_takes_the_most_probable_token_after_each_prefix(model):
    source, ids = _ids(7), np.ones((2, 9), "int32")
    for position in range(8):
        logits = model.whole([source, ids[:, :8]]).numpy()  # what is not decoded yet is hidden
        ids[:, position + 1] = logits[:, position].argmax(axis=-1)
    np.testing.assert_array_equal(recomputing(model, ROW, 1)(tf.constant(source)), ids[:, 1:])


def test_the_future_and_padding_are_hidden(model):
    source, target = _ids(7), _ids(6, 1)
    logits = model.whole([source, target]).numpy()
    later = target.copy()
    later[:, 4:] = 5
    np.testing.assert_allclose(model.whole([source, later])[:, :4], logits[:, :4], atol=1e-5)
    padded = np.pad(source, ((0, 0), (0, 0)))
    padded[:, 5:] = 0
    expected = model.whole([padded[:, :5], target])
    np.testing.assert_allclose(model.whole([padded, target]), expected, atol=1e-5)
    assert np.abs(expected - logits).max() > 1e-3


def test_the_loss_leaves_padding_out(model):
    source, target, following = _ids(7), _ids(6, 1), _ids(6, 2)
    following[0, 2:] = 0
    logits = model.whole([source, target]).numpy().astype("float64")
    losses = np.log(np.exp(logits).sum(axis=-1, keepdims=True)) - logits
    labels = np.where(np.arange(23) == following[..., None], 0.9, 0.0) + 0.1 / 23
    expected = (labels * losses).sum(axis=-1)[following != 0].mean()
    found = compiled(model.whole, ROW).test_on_batch([source, target], following, return_dict=True)["loss"]
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_there_are_as_many_weights_as_in_a_transformer():
    from kmha.layers import Transformer

    sizes = ROW.layers, ROW.width, ROW.heads, ROW.feed_forward, ROW.vocabulary, ROW.vocabulary, ROW.source, ROW.length
    ours = Transformer(*sizes, tie_embeddings="all")
    ours.build()
    assert builtin(ROW)[0].whole.count_params() == ours.count_params()
