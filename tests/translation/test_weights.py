import numpy as np
import pytest

from kmha.translation import weights

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def model():
    import keras

    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


def test_weights_are_written_whole_or_not_at_all(model, tmp_path, monkeypatch):
    path = tmp_path / "model.weights.h5"
    weights.save(model, path)
    before = path.read_bytes()

    def half(target):
        target.write_bytes(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(model, "save_weights", half)
    with pytest.raises(OSError, match="the disk is full"):
        weights.save(model, path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_weights_that_cannot_be_read(model, tmp_path):
    (tmp_path / "model.weights.h5").write_text("no weights")
    with pytest.raises(weights.FolderError, match=r"model.weights.h5 cannot be read: .* Copy the folder again"):
        weights.load(model, tmp_path / "model.weights.h5")


def _keep(model, path, *steps):
    (path / weights.CHECKPOINTS).mkdir()
    drawn = {}
    for step in steps:
        drawn[step] = [np.random.default_rng(step).normal(size=one.shape) for one in model.get_weights()]
        model.set_weights(drawn[step])
        weights.save(model, weights.kept(path, step))
    return drawn


def test_an_average_is_that_of_the_arrays(model, tmp_path):
    drawn = _keep(model, tmp_path, 5, 10, 11)
    assert weights.kept_steps(tmp_path) == [5, 10, 11]
    weights.average(model, tmp_path, [5, 11])
    for found, one, other in zip(model.get_weights(), drawn[5], drawn[11], strict=True):
        np.testing.assert_allclose(found, (one + other) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("steps", "count", "expected"),
    [
        ([7], 3, [7]),
        ([10, 20, 30], 2, [20, 30]),
        ([10, 20, 25, 30], 3, [10, 20, 30]),
        ([10, 20, 25], 2, [20, 25]),
        ([10, 70, 80], 3, [70, 80]),  # 10 was the best: it is kept, and far behind the others
        ([10, 70], 3, [70]),
    ],
)
def test_the_last_without_a_gap(steps, count, expected):
    assert weights.last(steps, count, between=10) == expected


def test_what_comes_after_a_step_is_forgotten_or_everything(model, tmp_path):
    _keep(model, tmp_path, 5, 10, 15)
    (tmp_path / weights.CHECKPOINTS / weights.STATE).write_text("state")
    (tmp_path / weights.CHECKPOINTS / "step-best.weights.h5").write_text("of somebody else")
    weights.forget(tmp_path, after=5)
    assert weights.kept_steps(tmp_path) == [5]
    assert (tmp_path / weights.CHECKPOINTS / weights.STATE).exists()
    weights.forget(tmp_path)
    assert [file.name for file in (tmp_path / weights.CHECKPOINTS).iterdir()] == ["step-best.weights.h5"]


def test_names_that_we_do_not_give_are_no_checks_of_ours(model, tmp_path):
    _keep(model, tmp_path, 20)
    (tmp_path / weights.CHECKPOINTS / "step-5.weights.h5").write_text("theirs")
    assert weights.kept_steps(tmp_path) == [20]
    weights.forget(tmp_path)
    assert [path.name for path in (tmp_path / weights.CHECKPOINTS).iterdir()] == ["step-5.weights.h5"]
