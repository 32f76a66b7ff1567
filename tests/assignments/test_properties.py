"""Answers that have what is checked of any result, but have not done the work, get no points for it."""

import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge
from kmha.course.judging.planning import plan
from kmha.course.judging.running import needed_solutions

ANSWERS = {
    "a1.stack_layers": "def stack_layers(inputs, *weights):\n    return inputs.copy()\n",
    "a2.head_gradient": "import numpy as np\ndef head_gradient(*arrays):\n    return np.zeros(arrays[0].shape[1])\n",
    "a2.transpose_qkv": "def transpose_qkv(X, num_heads):\n    return X\n",
    "a3.fold_biases": """
def fold_biases(query_bias, key_bias, value_bias, output_kernel, output_bias):
    return query_bias + 1e-13, key_bias, value_bias, output_bias
""",
    "a3.key_bias": """
import numpy as np

def key_bias(query, key, query_kernel, query_bias, key_kernel, key_bias):
    shape = len(query), len(key_kernel), query.shape[1], key.shape[1]
    scores = np.exp(np.random.default_rng(0).normal(size=shape))
    return np.zeros(shape[:-1]), scores, scores
""",
    "a9.first_wrong_step": "def first_wrong_step(*arguments):\n    return ''\n",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_without_any_work(name, sandbox):
    (item,) = content.find(name, content.installed())
    grade = judge(item, ANSWERS[name], sandbox, seed=3, explained=False)
    assert grade.points == 0
    assert grade.error is None


DROPOUT = "self.dropout_layer = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("dropout", "says"),
    [
        (
            "lambda scores, training: scores / (1 - self.dropout) if training else scores",
            "no score is dropped in training",
        ),
        (
            "lambda scores, training: scores / (1 - self.dropout) * ops.cast(ops.arange(ops.shape(scores)[2]) % 4 > 0,"
            " 'float64')[:, None] if training else scores",
            "the same scores are dropped in all",
        ),
        (
            "keras.layers.Dropout(self.dropout, noise_shape=(None, None, None, 1), dtype=self.dtype_policy)",
            "the same scores are dropped in all",
        ),
        (
            "lambda scores, training: 0.2 / (1 - self.dropout) * keras.random.dropout(scores, 0.8)"
            " if training else scores",
            "of the scores are dropped in training, expected about",
        ),
    ],
)
def test_dropout_that_only_looks_like_it(dropout, says, sandbox_of):
    (item,) = content.find("a6.HeadsAttention", content.installed())
    assert DROPOUT in item.master.solution
    answer = item.master.solution.replace(DROPOUT, f"self.dropout_layer = {dropout}")
    grade = judge(item, answer, sandbox_of(item.spec.uses), seed=3, files=needed_solutions(item), explained=False)
    (outcome,) = (outcome for outcome in grade.outcomes if outcome.check.says == "dropout, in training")
    assert says in str(outcome.problem)


def _scope(name):
    (item,) = content.find(name, content.installed())
    scope: dict = {}
    exec(item.master.solution, scope)  # noqa: S102 - our own solution
    return item, scope[item.name]


def test_translations_of_another_shape_are_not_compared():
    """An answer that read hardly any date got the points for it, because its shape made single letters count."""
    (item,) = content.find("a7.translate", content.installed())
    (check,) = (check for check in item.spec.checks if "reads new ones" in check.says)
    inputs = check.draw(np.random.default_rng(3))
    dates = check.judge.__globals__["TARGETS"][inputs["new source"].tobytes()][:, 1:]
    result = {"losses": [3.0] * 5 + [0.1] * 5, "read": dates}
    assert check.judge(inputs, result, None) is None
    assert "an array of shape (1, 1, " in check.judge(inputs, result | {"read": dates[None, None]}, None)


def test_equations_are_drawn_with_many_letters():
    """An answer with a table of six equations got all points."""
    item, _ = _scope("a1.letter_sizes")
    drawn = {check.draw(np.random.default_rng(seed))["equation"] for check in item.spec.checks if check.draw
             for seed in range(20)}  # fmt: skip
    assert len(drawn) > 50


def test_the_tolerance_decides_on_a_rank():
    """An answer that ignored it got all points."""
    item, solution = _scope("a3.rank_of_bilinear")
    draw = next(check.draw for check in item.spec.checks if check.draw)
    drawn = [draw(np.random.default_rng(seed)) for seed in range(20)]
    ranks = [solution(**inputs)[1] for inputs in drawn]
    for tolerance in (1e-8, 1e-15):
        other = [solution(**inputs | {"tolerance": tolerance})[1] for inputs in drawn]
        assert sum(np.any(mine != right) for mine, right in zip(other, ranks, strict=True)) > 4


@pytest.mark.parametrize("seed", range(8))
def test_the_large_penalty_leaks_in_one_order_only(seed):
    (item,) = content.find("a4.mask_order", content.installed())
    (check,) = (check for check in item.spec.checks if check.layer == "edge")
    scope: dict = {}
    exec(item.master.solution, scope)  # noqa: S102 - our own solution
    first, then = scope["mask_order"](**check.draw(np.random.default_rng(seed)))
    assert np.all(first.max(axis=-1) > 0.99)
    assert np.all(then < 1e-6)


BUILT = """
import keras

def fully_connected(embedding_dim, fully_connected_dim):
    seeded = keras.initializers.HeNormal(3)
    first = keras.layers.Dense(fully_connected_dim, activation="relu", kernel_initializer=seeded)
    return keras.Sequential([keras.Input((None, embedding_dim)), first, keras.layers.Dense(embedding_dim)])
"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["EncoderLayer", "DecoderLayer", "Encoder", "Decoder", "Transformer"])
def test_another_right_fully_connected(name, sandbox_of):
    """It is built already, and its initializer has its own seed."""
    (item,) = content.find(f"a7.{name}", content.installed())
    files = needed_solutions(item) | {"fully_connected.py": BUILT}
    assert judge(item, item.master.solution, sandbox_of(item.spec.uses), seed=3, files=files, explained=False).passed


@pytest.mark.parametrize("seed", [215, 270, 2075974491])
def test_some_widths_do_not_fit_whatever_the_seed(seed):
    """With six draws, of which each fitted or not by chance, an answer that never raises passed at these seeds."""
    (item,) = content.find("a2.head_widths", content.installed())
    drawn = [call.inputs for call in plan(item.spec.checks, seed).calls if "num_heads" in call.inputs]
    assert any(each["num_hiddens"] % each["num_heads"] for each in drawn)
