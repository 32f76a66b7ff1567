import dataclasses

import pytest

from kmha.translation import folder, preparation
from kmha.translation.corpora import Corpus, CorpusError, Pairs
from kmha.translation.folder import FolderError
from kmha.translation.preparation import CorpusSource, lock_folder, prepare_folder
from kmha.translation.settings import Settings
from kmha.translation.tokenizer import TokenizerError

SETTINGS = Settings.load("cpu", "files", ["data.vocabulary_size=40"])


def _corpus(last="a bird"):
    train = Pairs(["two dogs", "two cats", "a dog"] * 2, ["zwei Hunde", "zwei Katzen", "ein Hund"] * 2, "train")
    return Corpus(train, Pairs([last], ["ein Vogel"], "validation"), {}, None, "en", "de")


def _config(corpus, settings=SETTINGS, seed=3):
    return preparation.configure(CorpusSource("files"), corpus, settings, seed, "float32")


def test_each_task_has_its_corpus(tmp_path):
    assert CorpusSource("dates").read().target_language == "ISO 8601"
    for ending, line in (("en", "dog {}"), ("de", "Hund {}")):
        (tmp_path / f"text.{ending}").write_text("".join(line.format(number) + "\n" for number in range(50)))
    paths = tmp_path / "text.en", tmp_path / "text.de"
    files = CorpusSource("files", source=paths[0], target=paths[1]).read()
    assert (files.source_language, files.target_language) == ("en", "de")
    assert len(files.validation) == 2
    whole = CorpusSource("files", source=paths[0], target=paths[1], validation=paths).read()
    assert (len(whole.train), len(whole.validation)) == (50, 50)
    assert whole.tests == files.tests == {}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (CorpusSource("multi30k"), "multi30k needs --data DIR, a folder with the files of https://github.com/multi30k"),
        (CorpusSource("files"), "training on files needs --source FILE and --target FILE"),
        (CorpusSource("files", target=folder.Path("x")), "training on files needs --source FILE and --target FILE"),
    ],
)
def test_missing_sources(source, message):
    with pytest.raises(CorpusError, match=message):
        source.read()


def test_a_new_folder_is_made_and_then_opened_again(tmp_path):
    path, corpus = tmp_path / "not" / "yet", _corpus()
    config, tokenizer = prepare_folder(path, _config(corpus), corpus)
    assert config.vocabulary_size == tokenizer.vocabulary_size <= 40
    assert {file.name for file in path.iterdir()} == {"config.json", "tokenizer.json", "logs", "checkpoints"}
    again, same = prepare_folder(path, _config(corpus), corpus)
    assert again == config == folder.load_config(path)
    assert same.encode(["two birds"]) == tokenizer.encode(["two birds"])


def test_a_folder_without_config_is_made_as_if_it_were_new(tmp_path):
    """A process that is killed in between leaves such a folder."""
    corpus = _corpus()
    prepare_folder(tmp_path, _config(corpus), corpus)
    (tmp_path / folder.CONFIG).unlink()
    prepare_folder(tmp_path, _config(corpus), corpus)
    assert (tmp_path / folder.CONFIG).exists()


@pytest.mark.parametrize(
    ("options", "last", "message"),
    [
        ({"seed": 4}, "a bird", "holds a different run: seed was 3, is 4. Give the same command"),
        ({"settings": Settings.load("base", "files")}, "a bird", "settings.model.num_layers was 4, is 6; settings"),
        ({}, "a cow", "data.validation.sha256 was "),
    ],
)
def test_a_folder_of_another_run_is_left_alone(options, last, message, tmp_path):
    corpus, other = _corpus(), _corpus(last)
    config, _ = prepare_folder(tmp_path, _config(corpus), corpus)
    with pytest.raises(FolderError) as error:
        prepare_folder(tmp_path, _config(other, **options), other)
    assert message in str(error.value)
    assert "--restart" in str(error.value)
    assert folder.load_config(tmp_path) == config


def test_restart_starts_again(tmp_path):
    corpus = _corpus()
    config, _ = prepare_folder(tmp_path, _config(corpus), corpus)
    folder.save_config(tmp_path, dataclasses.replace(config, result={"finished": True}))
    (tmp_path / folder.CHECKPOINTS / "state.npz").write_text("old")
    again, _ = prepare_folder(tmp_path, _config(corpus, seed=5), corpus, restart=True)
    assert (again.seed, again.finished) == (5, False)
    assert not list((tmp_path / folder.CHECKPOINTS).iterdir())


def test_restart_removes_nothing_before_the_new_run_is_possible(tmp_path):
    corpus = _corpus()
    config, _ = prepare_folder(tmp_path, _config(corpus), corpus)
    (tmp_path / folder.WEIGHTS).write_text("dear to somebody")
    for wrong, error in (("data.vocabulary_size=9", TokenizerError), ("data.max_length=2", CorpusError)):
        settings = Settings.load("cpu", "files", ["data.vocabulary_size=40", wrong])
        with pytest.raises(error):
            prepare_folder(tmp_path, _config(corpus, settings), corpus, restart=True)
    assert folder.load_config(tmp_path) == config
    assert (tmp_path / folder.WEIGHTS).exists()


def test_restart_leaves_a_folder_of_another_program_alone(tmp_path):
    corpus = _corpus()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-best.weights.h5").write_text("theirs")
    with pytest.raises(FolderError, match=r"config.json was not written by kmha. Choose another folder with --out."):
        prepare_folder(tmp_path, _config(corpus), corpus, restart=True)
    assert (tmp_path / "checkpoints" / "step-best.weights.h5").exists()


def test_a_state_without_its_config_is_not_resumed(tmp_path):
    corpus = _corpus()
    prepare_folder(tmp_path, _config(corpus), corpus)
    (tmp_path / folder.CONFIG).unlink()
    for name in (folder.STATE, "step-00000250.weights.h5"):
        (tmp_path / folder.CHECKPOINTS / name).write_text("old")
    prepare_folder(tmp_path, _config(corpus, seed=5), corpus)
    assert not list((tmp_path / folder.CHECKPOINTS).iterdir())


def test_weights_without_a_config_may_be_another_programs(tmp_path):
    corpus = _corpus()
    (tmp_path / folder.WEIGHTS).write_text("theirs")
    with pytest.raises(FolderError, match=r"model.weights.h5 but no config.json, so it may belong to another program"):
        prepare_folder(tmp_path, _config(corpus), corpus)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(folder.WEIGHTS, "theirs")]


def test_temporary_files_of_a_killed_run_are_removed(tmp_path):
    corpus = _corpus()
    prepare_folder(tmp_path, _config(corpus), corpus)
    begun = ".config.json.x1", "logs/.history.csv.x2", "checkpoints/.state.npz.x3", "checkpoints/.17.weights.h5"
    for name in begun:
        (tmp_path / name).write_text("half")
    (tmp_path / "logs" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "logs" / ".gitignore").write_text("*")
    prepare_folder(tmp_path, _config(corpus), corpus)
    assert not [name for name in begun if (tmp_path / name).exists()]
    assert {file.name for file in (tmp_path / "logs").iterdir()} == {".ipynb_checkpoints", ".gitignore"}


def test_a_set_whose_pairs_are_all_too_long(tmp_path):
    corpus = _corpus("a bird " * 20)
    settings = Settings.load("cpu", "files", ["data.vocabulary_size=40", "data.max_length=19"])
    with pytest.raises(CorpusError, match=r"validation: none of 1 pairs has at most 19 tokens.* Raise data.max_length"):
        prepare_folder(tmp_path / "new", _config(corpus, settings), corpus)
    assert not (tmp_path / "new").exists()


def test_lock_folder_passes_on_errors(tmp_path):
    with pytest.raises(BlockingIOError), lock_folder(tmp_path):
        raise BlockingIOError("the pipe is full")
    with (
        lock_folder(tmp_path),
        pytest.raises(FolderError, match="another run is training"),
        lock_folder(tmp_path),
    ):
        pass


def test_folders_that_cannot_be_written(tmp_path):
    corpus = _corpus()
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match=r"cannot write .*file: .* Choose another folder with --out"):
        prepare_folder(tmp_path / "file", _config(corpus), corpus)
    small = Settings.load("cpu", "files", ["data.vocabulary_size=9"])
    with pytest.raises(TokenizerError, match="vocabulary_size must be at least"):
        prepare_folder(tmp_path / "small", _config(corpus, small), corpus)
    assert not (tmp_path / "small").exists()
