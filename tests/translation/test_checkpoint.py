import keras
import numpy as np
import pytest

from kmha.translation import checkpoint
from kmha.translation.checkpoint import CheckpointError, Journal

pytestmark = pytest.mark.tensorflow


def _task(width=3, seed=1):
    """A model with a seed generator and an optimizer with two moments."""
    keras.utils.set_random_seed(seed)
    task = keras.Sequential([keras.Input((5,)), keras.layers.Dense(width), keras.layers.Dropout(0.5)])
    task.compile(optimizer="adam", loss="mse", jit_compile=False)
    task.optimizer.build(task.trainable_variables)
    return task


def _learn(task, width=3, steps=4):
    data = np.random.default_rng(2).normal(size=(7 * steps, 5)).astype("float32")
    task.fit(data, data[:, :width], batch_size=7, shuffle=False, verbose=0)


JOURNAL = Journal(step=4, seconds=1.5, rows=[{"step": 4, "loss": 0.1}], samples=["ä → a"], best_step=4, best=-0.1)


def test_a_restored_task_continues_bit_for_bit(tmp_path):
    task, path = _task(), tmp_path / "state.npz"
    _learn(task)
    checkpoint.save(path, task, JOURNAL)
    _learn(task)  # on from there, dropout and all
    other = _task(seed=9)
    assert checkpoint.load(path, other) == JOURNAL
    _learn(other)
    for one, same in zip(task.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), same.numpy())
    for one, same in zip(task.optimizer.variables, other.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), same.numpy())
    assert int(other.optimizer.iterations.numpy()) == 8


def test_without_the_seeds_it_does_not(tmp_path):
    """This shows that the test above depends on the random state."""
    task, path = _task(), tmp_path / "state.npz"
    _learn(task)
    checkpoint.save(path, task, JOURNAL)
    _learn(task)
    other = _task(seed=9)
    checkpoint.load(path, other)
    other.layers[-1].seed_generator.state.assign([1, 2])
    _learn(other)
    assert not np.array_equal(task.layers[0].kernel.numpy(), other.layers[0].kernel.numpy())


def test_a_failed_write_leaves_the_previous_state(tmp_path, monkeypatch):
    task, path = _task(), tmp_path / "state.npz"
    checkpoint.save(path, task, JOURNAL)
    before = path.read_bytes()

    def full(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="the disk is full"):
        checkpoint.save(path, task, Journal())
    assert path.read_bytes() == before


@pytest.mark.parametrize("harm", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"no state"])
def test_a_broken_state(harm, tmp_path):
    task, path = _task(), tmp_path / "state.npz"
    checkpoint.save(path, task, JOURNAL)
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"state.npz cannot be read .* with --restart"):
        checkpoint.load(path, task)


def test_a_state_of_another_model_changes_nothing(tmp_path):
    path, other = tmp_path / "state.npz", _task(width=4)
    checkpoint.save(path, _task(), JOURNAL)
    before = [variable.numpy() for variable in other.variables]
    with pytest.raises(CheckpointError, match=r"another model: model/0000 has shape \(5, 3\) there and \(5, 4\) here"):
        checkpoint.load(path, other)
    for one, same in zip(before, other.variables, strict=True):
        np.testing.assert_array_equal(one, same.numpy())


def test_objects_are_not_read(tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, journal=np.array([{"step": 1}], dtype=object))
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint.load(path, _task())


PAIR = "two 'dogs'", "zwei Hunde"
SCORES = {"a/b": np.full((2, 3, 4), 0.25, "float32"), "c": np.full((2, 3, 3), 1 / 3, "float32")}


def test_recorded_attention(tmp_path):
    path = tmp_path / "attention.npz"
    assert checkpoint.load_attention(path, PAIR, SCORES) == {}
    checkpoint.save_attention(path, PAIR, {0: SCORES, 12: {name: one * 0 for name, one in SCORES.items()}})
    found = checkpoint.load_attention(path, PAIR, SCORES)
    assert list(found) == [0, 12]
    for name, one in SCORES.items():
        np.testing.assert_array_equal(found[0][name], one)
        np.testing.assert_array_equal(found[12][name], one * 0)


def test_recorded_attention_of_something_else(tmp_path):
    path = tmp_path / "attention.npz"
    checkpoint.save_attention(path, PAIR, {0: SCORES})
    with pytest.raises(CheckpointError, match=r"is of --probe 'two .*dogs.*' 'zwei Hunde'\. Give that again, or move"):
        checkpoint.load_attention(path, ("two dogs", "zwei Hunde"), SCORES)
    with pytest.raises(CheckpointError, match=r"is of another model\. Move it away"):
        checkpoint.load_attention(path, PAIR, {**SCORES, "c": SCORES["a/b"]})
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"attention.npz cannot be read \(.*\)\. Move it away"):
        checkpoint.load_attention(path, PAIR, SCORES)


@pytest.mark.parametrize(
    ("pair", "name", "scores"),
    [
        (b'["two dogs", "zwei Hunde"]', "a", SCORES["c"]),
        (b"7", "0/c", SCORES["c"]),
        (b"[", "0/c", SCORES["c"]),
        (b"[]", "0/c", SCORES["c"] * np.nan),
        (b"[]", "0/c", SCORES["c"] * 9),
        (b"[]", "0/c", np.full((2, 3, 3), "0.1")),
        (b"[]", "0/c", np.full((2, 3, 3), None)),
    ],
)
def test_recorded_attention_that_is_broken(tmp_path, pair, name, scores):
    path = tmp_path / "attention.npz"
    np.savez(path, pair=np.frombuffer(pair, "uint8"), **{name: scores})
    with pytest.raises(CheckpointError, match=r"attention.npz cannot be read \(.*\)\. Move it away"):
        checkpoint.load_attention(path, PAIR, SCORES)
