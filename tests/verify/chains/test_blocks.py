import keras
import numpy as np
import pytest

from kmha.layers import DecoderLayer, EncoderLayer
from kmha.verify import tolerance
from kmha.verify.chains.attention import ATTENTION, CHAINS, ImpossibleError, run
from kmha.verify.chains.blocks import DECODER, ENCODER
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.diagnosing.matching import mistakes_of
from kmha.verify.diagnosing.trials import Accepts, draw

pytestmark = pytest.mark.sampled(4)

# TensorFlow's own gelu rounds √2 to float32, which is 1e-8 off.
GELU = {"gelu": lambda x: x * (1 + keras.ops.erf(x / 2**0.5)) / 2}
UNSCALED = {"scaled": lambda state, right: state["logits"]}
SETTINGS = [(False, 1e-6, "relu"), (True, 1e-3, "gelu"), (True, 1e-6, "silu"), (False, 1e-5, "tanh")]


def within(step, changes):
    """The attention's `changes` made in one attention of a block alone: that of the step "inside1" or "inside2"."""
    return {step: lambda state, right: right({**state, "changes": (*state["changes"], changes)})}


def made(trial):
    """Our own layer, in float64, built for a trial."""
    options = {"norm": "pre" if trial.more["norm_first"] else "post"}
    options["activation"] = GELU.get(trial.more["activation"], trial.more["activation"])
    first = next(array for name, array in trial.weights.items() if name.endswith("query/kernel"))
    sizes = first.shape[1], first.shape[0], trial.weights["ffn/dense1/bias"].size, 0.0, trial.more["epsilon"]
    cls, shapes = (EncoderLayer, [trial.query.shape]) if trial.chain == "encoder" else (DecoderLayer, None)
    layer = cls(*sizes, key_dim=first.shape[2], dtype="float64", **options)
    layer.build(*(shapes or [trial.query.shape, trial.key.shape]))
    return layer


def ours(layer, trial):
    """Return the layer's results."""
    for weight in layer.weights:
        weight.assign(trial.weights[weight.path.split("/", 1)[1]])
    if trial.chain == "encoder":
        return layer(trial.query, mask=trial.allowed(), return_attention_scores=True)
    allowed = run(trial)["call1"].allowed()
    padding = None if trial.key_mask is None else trial.key_mask[:, None, :]
    return layer(trial.query, trial.key, look_ahead_mask=allowed, padding_mask=padding)


@pytest.mark.parametrize("chain", ["encoder", "decoder"])
@pytest.mark.parametrize(("norm_first", "epsilon", "activation"), SETTINGS)
def test_the_right_block_agrees_with_our_layer(chain, norm_first, epsilon, activation):
    accepts = BlockAccepts(chain, memory=True, norm_first=norm_first, epsilon=epsilon, activation=activation)
    trials = draw_block(3, accepts)
    layer = made(trials[0])
    for trial in trials:
        state = run(trial)
        names = ("output", "scores1", "scores2")[: 3 if chain == "decoder" else 2]
        for name, expected in zip(names, ours(layer, trial), strict=True):
            assert tolerance.is_close(state[name], np.asarray(expected), "float64"), (trial.name, name)


@pytest.mark.parametrize("steps", [ENCODER, DECODER])
def test_no_step_shares_a_name_with_the_attention(steps):
    assert set(steps) & set(ATTENTION) == {"untouched"}


@pytest.mark.parametrize("chain", ["encoder", "decoder"])
def test_chains_are_registered(chain):
    assert CHAINS[chain] is {"encoder": ENCODER, "decoder": DECODER}[chain]


def test_a_mistake_of_the_attention_is_made_in_both_or_in_one():
    trial = draw_block(0, BlockAccepts("decoder"))[0]
    right, both = run(trial), run(trial, [UNSCALED])
    first, second = (run(trial, [within(step, UNSCALED)]) for step in ("inside1", "inside2"))
    for state, differing in ((both, (1, 2)), (first, (1,)), (second, (2,))):
        for number in (1, 2):
            # What the second attention gets differs after a mistake in the first: compare with its own logits.
            inside = state[f"inside{number}"]
            unscaled = np.array_equal(inside["scaled"], inside["logits"])
            assert unscaled == (number in differing)
    assert not np.allclose(both["output"], right["output"])
    assert not np.allclose(first["output"], second["output"])


def test_each_attention_gets_its_masks():
    trials = {trial.name: trial for trial in draw_block(1, BlockAccepts("decoder"))}
    trial = trials["look-ahead and both paddings"]
    state = run(trial)
    rows = trial.query.shape[1]
    look_ahead = np.tril(np.ones((rows, rows), bool))
    np.testing.assert_array_equal(state["call1"].allowed(), look_ahead & trial.query_mask[:, None, :])
    padding = np.broadcast_to(trial.key_mask[:, None, :], state["call2"].allowed().shape)
    np.testing.assert_array_equal(state["call2"].allowed(), padding)


@pytest.mark.parametrize("chain", ["attention", "encoder", "decoder", "embedding"])
def test_a_mistake_computes_the_same_from_known_results(chain):
    """What comes before the first step that it changes is not computed again."""
    drawn = draw(3, Accepts(mask=True, causal=True)) if chain == "attention" else draw_block(3, BlockAccepts(chain))
    compared = 0
    for trial in drawn[:3]:
        known = run(trial)
        for mistake in mistakes_of(chain):
            try:
                expected = run(trial, [mistake.changes])
            except ImpossibleError:
                with pytest.raises(ImpossibleError):
                    run(trial, [mistake.changes], known)
                continue
            found = run(trial, [mistake.changes], known)
            for name in ("output", "returned", "untouched"):
                np.testing.assert_array_equal(found.get(name), expected.get(name), err_msg=f"{mistake.id}: {name}")
            compared += 1
    assert compared > 30
