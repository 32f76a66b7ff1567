import dataclasses
import json
import os
import shutil
import types

import h5py
import numpy as np
import pytest

from kmha.translation import folder
from kmha.translation.folder import Config, FolderError
from kmha.translation.settings import Settings
from kmha.translation.tokenizer import Tokenizer

pytestmark = pytest.mark.tensorflow

TEXTS = ["two dogs run", "zwei Hunde laufen"] * 2
SIZES = ["model.num_layers=1", "model.embedding_dim=6", "model.num_heads=2", "model.fully_connected_dim=10"]
STEPS = (10, 20, 25, 30)


@pytest.fixture(scope="module")
def _made(tmp_path_factory):
    """A folder with four kept checks, and the weights of each."""
    path = tmp_path_factory.mktemp("models") / "model"
    (path / folder.CHECKPOINTS).mkdir(parents=True)
    tokenizer = Tokenizer.train(TEXTS, 30)
    tokenizer.save(path / folder.TOKENIZER)
    settings = Settings.load("cpu", "files", [*SIZES, "training.steps_between_checks=10", "training.average=2"])
    config = Config("files", "en", "de", settings, 3, "float32", {"train": {"pairs": 4}}, tokenizer.vocabulary_size)
    folder.save_config(path, config)
    model, kept = folder.build(config), {}
    random = np.random.default_rng(7)
    for step in STEPS:
        kept[step] = [random.normal(size=weight.shape).astype("float32") for weight in model.get_weights()]
        model.set_weights(kept[step])
        folder.save_weights(model, folder.checkpoint(path, step))
    folder.save_weights(model, path / folder.WEIGHTS)
    return path, config, kept


@pytest.fixture
def made(_made, tmp_path):
    path, config, kept = _made
    return shutil.copytree(path, tmp_path / "elsewhere"), config, kept


def _same(model, expected):
    for one, other in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_folder_is_loaded_wherever_it_is(made):
    path, config, kept = made
    model, tokenizer, loaded = folder.load(path)
    assert loaded == config
    assert tokenizer.decode(tokenizer.encode(["two Hunde"])[0]) == "two Hunde"
    _same(model, kept[30])
    assert str(path.parent) not in (path / folder.CONFIG).read_text()
    assert [file.name for file in path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.parametrize(("step", "averaged"), [(10, [10]), (20, [10, 20]), (25, [20, 25]), (30, [20, 30])])
def test_a_step_is_the_average_of_the_regular_checks_up_to_it(step, averaged, made):
    path, _, kept = made
    model, _, _ = folder.load(path, step)
    for place, got in enumerate(model.get_weights()):
        expected = np.mean([kept[one][place].astype("float64") for one in averaged], axis=0)
        np.testing.assert_array_equal(got, expected.astype("float32"))


def test_a_step_that_is_not_kept(made):
    with pytest.raises(FolderError, match=r"has no weights of step 15. It has: 10, 20, 25, 30. See training.keep_all"):
        folder.load(made[0], 15)


def _without(name):
    return lambda path: (path / name).unlink()


def _with(name, text):
    return lambda path: (path / name).write_text(text)


def _changed(**values):
    def change(path):
        config = json.loads((path / folder.CONFIG).read_text())
        (path / folder.CONFIG).write_text(json.dumps({**config, **values}))

    return change


def _pipe(name):
    def change(path):
        (path / name).unlink()
        os.mkfifo(path / name)

    return change


def _set(section, name, value):
    def change(path):
        config = json.loads((path / folder.CONFIG).read_text())
        config["settings"][section][name] = value
        (path / folder.CONFIG).write_text(json.dumps(config))

    return change


def _sparse(name, change):
    """Write weights that seem to be larger, but take no space."""

    def harm(path):
        with open(path / name, "ab") as file:
            file.truncate(100_000_000)
        change(path)

    return harm


def _array(name="layers/x/vars/0", **arguments):
    """Put an array into the weights of which little is stored."""

    def harm(path):
        with h5py.File(path / folder.WEIGHTS, "a") as file:
            file.create_dataset(name, dtype="float32", **arguments)

    return harm


def _nan(path):
    model, _, _ = folder.load(path)
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    folder.save_weights(model, path / folder.WEIGHTS)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (shutil.rmtree, "does not exist. Expected a folder that `kmha train --out DIR` has created"),
        (_without("config.json"), "is not a model folder: it has no config.json"),
        (_without("tokenizer.json"), "is incomplete: it has no tokenizer.json"),
        (_without("model.weights.h5"), "has no finished model yet. Run the same `kmha train` again to resume it"),
        (_with("config.json", "{"), "is not a config of kmha"),
        (_with("config.json", "[1]"), "is not a config of kmha"),
        (_with("config.json", '{"format": 1, "kmha": "0.1.0"}'), "is not a config of kmha"),
        (_with("tokenizer.json", "{}"), "tokenizer.json cannot be read"),
        (_with("model.weights.h5", "no weights" * 10_000), "model.weights.h5 cannot be read"),
        (_with("config.json", "[" * 10**5 + "]" * 10**5), "is not a config of kmha"),
        (_with("config.json", "[" + "{}," * 10**6 + "{}]"), "is not a config of kmha"),
        (_with("config.json", "[]" + " " * (4 << 20)), "config.json cannot be read: it has more than 4 MiB"),
        (_pipe("config.json"), "config.json cannot be read: it is not a regular file"),
        (_pipe("tokenizer.json"), "is incomplete: it has no tokenizer.json"),
        (_changed(format=3, kmha="9\x1b]0;title\x07"), r"was written by kmha 9\x1b]0;title\x07 in format 3"),
        (_changed(kmha=[9]), "is not a config of kmha"),
        (_changed(kmha="9\x1b]0;title\x07"), r"is not a config of kmha (kmha is '9\x1b]0;title\x07')"),
        (_changed(task="\u202efiles"), r"is not a config of kmha (task is '\u202efiles')"),
        (_changed(settings={"\x1b[31mmodel": {}}), r"there is no section \x1b[31mmodel"),
        (_changed(format=3, kmha="9.0"), "was written by kmha 9.0 in format 3"),
        (_changed(settings={"model": {}}), "is not a config of kmha"),
        (_changed(vocabulary_size=17), "tokens, but the model expects 17: it belongs to another model"),
        (_changed(vocabulary_size="30"), "is not a config of kmha (vocabulary_size is '30')"),
        (_changed(result=[]), "is not a config of kmha (result is [])"),
        (_set("model", "max_positions", 2**24), "describes a model far larger than the weights"),
        (
            _set("model", "num_layers", 2**24),
            "describes a model of 16,777,216 layers. kmha loads models of at most",
        ),
        (_set("model", "num_layers", 1_000), "describes a model far larger than the weights"),
        (_set("model", "embedding_dim", 400), "describes a model far larger than the weights"),
        (_set("model", "fully_connected_dim", 2**14), "describes a model far larger than the weights"),
        (_sparse("model.weights.h5", _set("model", "embedding_dim", 400)), "describes a model far larger than the wei"),
        (_sparse("other.weights.h5", _set("model", "embedding_dim", 400)), "describes a model far larger than the wei"),
        (_set("model", "max_positions", 2**40), "must be 8 to 16,777,216. Received: 1099511627776"),
        (_set("model", "fully_connected_dim", 9), "model.weights.h5 cannot be read"),
        (
            _array(shape=(2_000, 2_000)),
            "`layers/x/vars/0` has 16,000,000 bytes, and no array of this model has more than",
        ),
        (_array("seed_generator/vars/0", shape=(2_000, 2_000)), "`seed_generator/vars/0` has 16,000,000 bytes"),
        (
            _array(shape=(1,), maxshape=(None,), chunks=(2**20,)),
            "`layers/x/vars/0` is compressed, in chunks, elsewhere",
        ),
        (_nan, "has weights that are NaN or infinite: the training diverged"),
    ],
)
def test_folders_that_are_broken_or_incomplete(harm, message, made):
    path = made[0]
    harm(path)
    with pytest.raises(FolderError) as error:
        folder.load(path)
    assert message in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
@pytest.mark.timeout(60)
def test_a_pipe_instead_of_kept_weights(made):
    path = made[0]
    folder.checkpoint(path, 30).unlink()
    os.mkfifo(folder.checkpoint(path, 30))
    with pytest.raises(FolderError, match=r"cannot be read: it is not a regular file. Copy the folder again"):
        folder.load(path, 30)


@pytest.mark.parametrize("tie", ["none", "target", "all"])
@pytest.mark.parametrize("heads", [{}, {"encoder_layer1_self_att": 1, "decoder_layer1_block2_decenc_att": 1}])
def test_the_estimated_number_of_weights_is_a_little_too_small(made, tie, heads):
    """It is computed before anything is allocated. An honest folder must not be refused."""
    _, config, _ = made
    sizes = [*SIZES, "model.num_layers=2", f"model.tie_embeddings={tie}"]
    config = dataclasses.replace(config, settings=Settings.load("cpu", "files", sizes), heads=heads)
    there = folder.build(config).count_params()
    assert 0.7 * there < folder._numbers(config) < there


@pytest.mark.parametrize("counts", [True, False])
def test_a_folder_is_loaded_where_the_system_counts_no_blocks(made, monkeypatch, counts):
    """Windows has no number of blocks, and writes nothing through a file that is open to be read."""
    fstat = os.fstat

    def stat(descriptor):
        found = fstat(descriptor)
        fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_") and name != "st_blocks"}
        return types.SimpleNamespace(**fields, **({"st_blocks": 0} if counts else {}))

    def refuse(descriptor):
        raise OSError("bad file descriptor")

    weights = made[0] / folder.WEIGHTS
    assert folder._stored(weights) == weights.stat().st_size
    monkeypatch.setattr(folder.os, "fstat", stat)
    monkeypatch.setattr(folder.os, "fsync", refuse)
    assert folder._stored(weights) == weights.stat().st_size


def test_the_identity_of_a_run_excludes_its_result_and_version(made):
    _, config, _ = made
    again = dataclasses.replace(config, result={"finished": True}, kmha="0.0.9", vocabulary_size=5)
    assert again.identity() == config.identity()
    assert again.finished
    assert not config.finished
    assert dataclasses.replace(config, seed=4).identity() != config.identity()


def test_clear_removes_only_files_of_kmha(made):
    path = made[0]
    mine = "notes.txt", "logs/notes.txt", "checkpoints/notes.txt"
    for name in mine:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("mine")
    folder.clear(path)
    assert {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} == {*mine}


@pytest.fixture
def model():
    import keras

    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


def test_a_failed_write_leaves_the_previous_weights(model, tmp_path, monkeypatch):
    path = tmp_path / "model.weights.h5"
    folder.save_weights(model, path)
    before = path.read_bytes()

    def half(target):
        target.write_bytes(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(model, "save_weights", half)
    with pytest.raises(OSError, match="the disk is full"):
        folder.save_weights(model, path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_weights_that_cannot_be_read(model, tmp_path):
    (tmp_path / "model.weights.h5").write_text("no weights")
    with pytest.raises(FolderError, match=r"model.weights.h5 cannot be read: .* Copy the folder again"):
        folder.load_weights(model, tmp_path / "model.weights.h5")


def _keep(model, path, *steps):
    (path / folder.CHECKPOINTS).mkdir()
    drawn = {}
    for step in steps:
        drawn[step] = [np.random.default_rng(step).normal(size=one.shape) for one in model.get_weights()]
        model.set_weights(drawn[step])
        folder.save_weights(model, folder.checkpoint(path, step))
    return drawn


def test_average_weights(model, tmp_path):
    drawn = _keep(model, tmp_path, 5, 10, 11)
    assert folder.checkpoint_steps(tmp_path) == [5, 10, 11]
    folder.average_weights(model, tmp_path, [5, 11])
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
def test_last_steps(steps, count, expected):
    assert folder.last_steps(steps, count, between=10) == expected


def test_checkpoints_after_a_step_are_removed_or_all(model, tmp_path):
    _keep(model, tmp_path, 5, 10, 15)
    (tmp_path / folder.CHECKPOINTS / folder.STATE).write_text("state")
    (tmp_path / folder.CHECKPOINTS / "step-best.weights.h5").write_text("of somebody else")
    folder.remove_checkpoints(tmp_path, after=5)
    assert folder.checkpoint_steps(tmp_path) == [5]
    assert (tmp_path / folder.CHECKPOINTS / folder.STATE).exists()
    folder.remove_checkpoints(tmp_path)
    assert [file.name for file in (tmp_path / folder.CHECKPOINTS).iterdir()] == ["step-best.weights.h5"]


def test_files_with_other_names_are_not_checkpoints(model, tmp_path):
    _keep(model, tmp_path, 20)
    (tmp_path / folder.CHECKPOINTS / "step-5.weights.h5").write_text("theirs")
    assert folder.checkpoint_steps(tmp_path) == [20]
    folder.remove_checkpoints(tmp_path)
    assert [path.name for path in (tmp_path / folder.CHECKPOINTS).iterdir()] == ["step-5.weights.h5"]
