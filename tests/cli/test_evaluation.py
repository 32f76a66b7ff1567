import importlib.util
import json
import os
import types

import pytest
from click.testing import CliRunner

from kmha.cli import common, evaluation, main, translation
from kmha.cli.options import SearchChoice
from kmha.translation import corpora

pytestmark = pytest.mark.tensorflow

GREEDY = SearchChoice("greedy", {})
SOURCES = ["two dogs run on the sand .", "a cat sleeps .", "the old tree", "three birds sing", "a bird sings"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr("sys.argv", ["/somewhere/kmha", "evaluate", "model"])


@pytest.fixture
def of_task(translator, monkeypatch):
    """Has the model be of another task, whose corpus has these test sets; gives what the corpus was asked for."""
    import dataclasses

    from kmha.translation.translator import Translator

    asked = []

    def change(task, tests, notice=None):
        config = dataclasses.replace(translator.config, task=task)
        changed = Translator(translator.model, translator.tokenizer, translator.settings, config)
        monkeypatch.setattr(translation, "load", lambda folder, step=None: changed)
        corpus = corpora.Corpus(tests["train"], tests["train"], tests, notice, "en", "de")

        def read(source):
            asked.append(source)
            return corpus

        monkeypatch.setattr("kmha.translation.preparation.CorpusSource.read", read)
        return asked

    return change


def _run(*arguments):
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


def _texts(translator, sources, **options):
    return [best.text for best, *_ in translator.translate(sources, note=lambda row, text: None, **options)]


def _pairs(name, sources, targets):
    return corpora.Pairs(list(sources), list(targets), name)


def _files(tmp_path, targets):
    (tmp_path / "mine.en").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "mine.de").write_text("".join(f"{line}\n" for line in targets))
    return "--source", "mine.en", "--target", "mine.de"


def test_files(model_folder, translator, tmp_path):
    from kmha.translation import scores

    targets = [
        "Zwei Hunde laufen im Sand .",
        "eine Katze schläft .",
        "Der alte Baum",
        "drei Vögel singen",
        "ein Vogel singt",
    ]
    result = _run(model_folder, *_files(tmp_path, targets), "--json", "scores.json", "--output", "out.de")
    assert result.exit_code == 0, result.output
    texts = _texts(translator, SOURCES)
    assert (tmp_path / "out.de").read_text() == "".join(f"{text}\n" for text in texts)
    expected = scores.every_score(texts, targets, "de")
    assert 0 < expected[0].value < 100
    for score in expected:
        assert f"{score.value:.2f}" in result.stdout
        assert f"{score.name}: {score.signature}" in result.stdout
    assert "en → de" in result.stdout
    assert "beam, beam size 2, length penalty 0.5, max length 9" in result.stdout
    report = json.loads((tmp_path / "scores.json").read_text())
    assert report["command"] == "kmha evaluate model"
    assert report["search"] == {"method": "beam", "beam_size": 2, "length_penalty": 0.5, "max_length": 9, "n_best": 1}
    assert report["parameters"] == translator.model.count_params()
    assert "tensorflow" in report["machine"]["versions"]
    [test] = report["tests"]
    assert test["name"] == "mine.en"
    assert test["sentences"] == 5
    assert [score["value"] for score in test["scores"]] == [score.value for score in expected]
    assert test["tokens_per_second"] == pytest.approx(test["tokens"] / test["seconds"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.de", "mine.en", "out.de", "scores.json"]


def test_tokens_are_those_written_and_the_ends(translator):
    pairs = _pairs("few", SOURCES[:3], SOURCES[:3])
    result = evaluation.score_test_set(translator, "few", pairs, GREEDY)
    found = [best for best, *_ in translator.translate(pairs.source, "greedy", note=lambda row, text: None)]
    assert result.tokens == sum(len(one.ids) for one in found) + sum(one.finished for one in found)
    assert result.unfinished == sum(not one.finished for one in found)
    assert result.seconds > 0


def test_progress(translator):
    received = []
    pairs = _pairs("few", SOURCES, SOURCES)
    evaluation.score_test_set(translator, "few", pairs, GREEDY, lambda name, done: received.append((name, done)))
    assert received[-1] == ("few", 5)


def test_dates_count_what_is_right(of_task, translator):
    texts = _texts(translator, SOURCES)
    half = [*texts[:3], "1999-12-31", "2000-01-01"]
    tests = {
        "seen_formats": _pairs("seen_formats", SOURCES, half),
        "held_out_formats": _pairs("held_out_formats", SOURCES[:2], ["1999-12-31", "2000-01-01"]),
        "train": _pairs("train", SOURCES[:1], texts[:1]),
    }
    asked = of_task("dates", {name: tests[name] for name in tests})
    result = _run("model", "--test", "seen_formats", "--test", "held_out_formats")
    assert result.exit_code == 0, result.output
    [seen] = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["seen_formats"]]
    [held_out] = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["held_out_formats"]]
    assert seen[:3] == ["seen_formats", "5", "60.00"]
    assert held_out[:3] == ["held_out_formats", "2", "0.00"]
    assert "exact matches: case:mixed|spaces:stripped" in result.stdout
    assert "tokenized" not in result.stdout
    assert asked[0].task == "dates"


def test_multi30k_needs_its_files(of_task, tmp_path):
    pairs = _pairs("train", SOURCES[:2], SOURCES[:2])
    asked = of_task("multi30k", {"train": pairs}, notice="Only for research.")
    result = _run("model", "--data", tmp_path)
    assert result.exit_code == 0, result.output
    assert "Only for research." in result.stderr
    assert "Only for research." not in result.stdout
    assert asked[0].data == tmp_path
    assert asked[0].direction == "en-de"


def test_multi30k_without_its_files_is_a_line(another_task):
    result = _run(another_task("multi30k"))
    assert result.exit_code == 1
    assert "multi30k needs --data DIR" in result.output
    assert "Traceback" not in result.output


def test_the_default_is_all_test_sets_but_not_the_validation_set(of_task):
    pairs = {name: _pairs(name, SOURCES[:2], SOURCES[:2]) for name in ("first", "second", "train")}
    of_task("dates", pairs)
    lines = _run("model", "--greedy").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.split()[1:2] == ["2"]] == ["first", "second", "train"]
    lines = _run("model", "--greedy", "--test", "validation").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.split()[1:2] == ["2"]] == ["validation"]


@pytest.mark.usefixtures("_loaded")
@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 2, "this model was trained on your own files: add --source FILE --target FILE to test it."),
        (["--source", "mine.en"], 2, "--source and --target go together"),
        (["--source", "mine.en", "--target", "mine.de", "--data", "."], 2, "--data is for Multi30k: leave it out"),
        (["--source", "no.en", "--target", "mine.de"], 2, "File 'no.en' does not exist"),
        (["--source", "mine.en", "--target", "short.de"], 1, "mine.en has 5 lines and short.de has 1."),
        (
            ["--source", "mine.en", "--target", "mine.de", "--test", "x"],
            2,
            "no test set x. There are: mine.en.",
        ),
        (["--json", "no/scores.json"], 2, "the folder no does not exist"),
        (["--greedy", "--beam", "3"], 2, "--beam is for the beam search: leave --greedy out."),
        (["--greedy", "--length-penalty", "1"], 2, "--length-penalty is for the beam search: leave --greedy out."),
    ],
)
def test_bad_options_are_explained_in_a_line(options, status, message, tmp_path):
    _files(tmp_path, SOURCES)
    (tmp_path / "short.de").write_text("a line\n")
    result = _run("model", *options)
    assert result.exit_code == status, result.output
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_one_file_of_translations_holds_one_test_set(of_task):
    of_task("dates", {name: _pairs(name, SOURCES[:2], SOURCES[:2]) for name in ("first", "train")})
    result = _run("model", "--output", "out.txt")
    assert result.exit_code == 2
    assert "--output holds one test set: add --test with one of first, train." in " ".join(result.output.split())


def test_a_step_that_was_not_kept_is_a_line(model_folder):
    result = _run(model_folder, "--step", "700")
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {model_folder} has no weights of step 700. It has: none.")


@pytest.mark.slow
def test_a_step_that_was_kept(model_folder, another_task, tmp_path):
    """Its weights are read, and not those of the finished model."""
    from kmha.translation import folder
    from kmha.translation.translator import Translator

    path = another_task("files")
    kept = Translator.load(path)
    kept.model.set_weights([-weight for weight in kept.model.get_weights()])
    (path / folder.CHECKPOINTS).mkdir()
    folder.save_weights(kept.model, folder.checkpoint(path, 250))
    result = _run(path, *_files(tmp_path, SOURCES), "--step", "250", "--output", "out.de")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.de").read_text().splitlines() == _texts(kept, SOURCES)
    assert (tmp_path / "out.de").read_text().splitlines() != _texts(Translator.load(model_folder), SOURCES)


@pytest.mark.parametrize("package", ["sacrebleu", "sacremoses"])
def test_a_missing_extra_is_a_line(package, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    monkeypatch.setattr(translation, "load", None)  # nothing is loaded
    result = _run("model")
    assert result.exit_code == 1
    assert result.output == (
        f"Error: {package}, which kmha evaluate needs, is not installed. Run: pip install 'kmha[translate]'\n"
    )


def test_ctrl_c(of_task, monkeypatch):
    of_task("dates", {"train": _pairs("train", SOURCES[:2], SOURCES[:2])})

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "score_test_set", interrupt)
    result = _run("model", "--json", "scores.json")
    assert result.exit_code == common.INTERRUPTED
    assert result.stderr.strip() == "Interrupted."
    assert not os.path.exists("scores.json")


def test_truncated_translations_are_counted(capsys):
    result = evaluation.SetResult(
        "few", ["a"], [types.SimpleNamespace(name="BLEU", value=1.5, signature="s:1")], 9, 2.0, 3
    )
    about = {"languages": ["en", "de"], "parameters": 12345, "search": {"method": "greedy"}}
    evaluation._show([result], about)
    output = capsys.readouterr().out
    assert "few: 3 translations were truncated before their end." in output
    assert "12,345 parameters; greedy" in output
    assert "1.50" in output


@pytest.mark.usefixtures("_loaded")
def test_files_are_written_before_anything_is_shown(tmp_path, monkeypatch):
    """The reader of the table can go before its end, and a terminal can lack its characters."""

    def gone(*arguments):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(evaluation, "_show", gone)
    _run("model", *_files(tmp_path, SOURCES), "--json", "scores.json", "--output", "out.de")
    assert json.loads((tmp_path / "scores.json").read_text())["tests"][0]["sentences"] == 5
    assert len((tmp_path / "out.de").read_text().splitlines()) == 5
