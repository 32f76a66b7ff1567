import dataclasses
import json
import shutil

import numpy as np
import pytest

from kmha.translation import folder, weights
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
    (path / weights.CHECKPOINTS).mkdir(parents=True)
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
        weights.save(model, weights.kept(path, step))
    weights.save(model, path / folder.WEIGHTS)
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
    with pytest.raises(
        FolderError, match=r"keeps no weights of step 15. It has: 10, 20, 25, 30. See training.keep_all"
    ):
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


def _set(section, name, value):
    def change(path):
        config = json.loads((path / folder.CONFIG).read_text())
        config["settings"][section][name] = value
        (path / folder.CONFIG).write_text(json.dumps(config))

    return change


def _nan(path):
    model, _, _ = folder.load(path)
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    weights.save(model, path / folder.WEIGHTS)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (shutil.rmtree, "does not exist. A folder that `kmha train --out DIR` has made is expected"),
        (_without("config.json"), "is not a model folder: it has no config.json"),
        (_without("tokenizer.json"), "is not whole: it has no tokenizer.json"),
        (_without("model.weights.h5"), "has no finished model yet. Start its `kmha train` again"),
        (_with("config.json", "{"), "is not what kmha writes there"),
        (_with("config.json", "[1]"), "is not what kmha writes there"),
        (_with("config.json", '{"format": 1, "kmha": "0.1.0"}'), "is not what kmha writes there"),
        (_with("tokenizer.json", "{}"), "tokenizer.json cannot be read"),
        (_with("model.weights.h5", "no weights"), "model.weights.h5 cannot be read"),
        (_changed(format=2, kmha="9.0"), "was written by kmha 9.0 in format 2"),
        (_changed(settings={"model": {}}), "is not what kmha writes there"),
        (_changed(vocabulary_size=17), "tokens, and the model is of 17: it is another model's"),
        (_changed(vocabulary_size="30"), "is not what kmha writes there (vocabulary_size is '30')"),
        (_changed(result=[]), "is not what kmha writes there (result is [])"),
        (_set("model", "max_positions", 2**24), "describes a model far larger than the weights"),
        (_set("model", "num_layers", 2**24), "describes a model far larger than the weights"),
        (_set("model", "max_positions", 2**40), "must be 8 to 16,777,216. Received: 1099511627776"),
        (_set("model", "fully_connected_dim", 9), "model.weights.h5 cannot be read"),
        (_nan, "there are weights that are no numbers: its training diverged"),
    ],
)
def test_a_folder_that_is_none_or_not_whole(harm, message, made):
    path = made[0]
    harm(path)
    with pytest.raises(FolderError) as error:
        folder.load(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_a_run_is_recognised_by_is_neither_its_result_nor_its_version(made):
    _, config, _ = made
    again = dataclasses.replace(config, result={"finished": True}, kmha="0.0.9", vocabulary_size=5)
    assert again.identity() == config.identity()
    assert again.finished
    assert not config.finished
    assert dataclasses.replace(config, seed=4).identity() != config.identity()


def test_clearing_removes_nothing_of_others(made):
    path = made[0]
    mine = "notes.txt", "logs/notes.txt", "checkpoints/notes.txt"
    for name in mine:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("mine")
    folder.clear(path)
    assert {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} == {*mine}
