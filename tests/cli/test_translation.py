import importlib.util
import io
import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kmha.cli import main, translation

pytestmark = pytest.mark.tensorflow

TEXTS = ["two dogs run on the sand .", "a cat sleeps .", "the old tree"]
TRANSLATIONS = ["zwei Hunde laufen am Strand .", "eine Katze schläft .", "der alte Baum"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", dict(os.environ))


def _run(*arguments, input=None):
    return CliRunner().invoke(main, ["translate", *map(str, arguments)], input=input)


def _quiet(row, text):
    pass


def test_arguments(model_folder):
    result = _run(model_folder, *TEXTS)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == TRANSLATIONS
    assert result.stderr == ""


@pytest.mark.usefixtures("_loaded")
@pytest.mark.parametrize("options", [[], ["--json"], ["--attention"]], ids=str)
def test_no_vocabulary_controls_the_terminal(monkeypatch, translator, options):
    hostile = [
        token if index < 4 else f"{token}\x1b]0;title\x07\x9b\u202e"
        for index, token in enumerate(translator.tokenizer._tokens)
    ]
    monkeypatch.setattr(translator.tokenizer, "_tokens", hostile)
    result = _run("model", *options, TEXTS[0])
    assert result.exit_code == 0, result.output
    assert re.search(r"zwei.*\\(x1b|u001b)\]0;title\\(x07|u0007)\\(x9b|u009b)\\u202e", result.stdout)
    assert result.stdout.replace("\n", "").isprintable()
    if options == ["--json"]:
        assert json.loads(result.stdout)["translations"][0]["text"].startswith("zwei\x1b]0;title\x07\x9b\u202e")


@pytest.mark.usefixtures("_loaded")
def test_a_pipe_gives_a_line_for_each_line():
    piped = b"\xef\xbb\xbf" + TEXTS[0].encode() + b"\r\n\n" + TEXTS[1].encode() + b"\n   \r\n" + TEXTS[2].encode()
    result = _run("model", input=piped)
    assert result.exit_code == 0, result.output
    assert result.stdout.split("\n") == [TRANSLATIONS[0], "", TRANSLATIONS[1], "", TRANSLATIONS[2], ""]
    assert result.stderr == ""
    assert _run("model", input=b"").stdout == ""
    assert _run("model", input=b"\n\n").stdout == "\n\n"


@pytest.mark.usefixtures("_loaded")
def test_notes_name_the_line():
    lines = [TEXTS[0], "a 犬 sleeps", "sand " * 40, "we listen , and the birds sing in the old tree ."]
    result = _run("model", input="\n".join(lines).encode() + b"\na cat \xff sleeps\n")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 5
    assert "line 2: the model does not know '犬'." in result.stderr
    assert "line 3: the text has 40 tokens; the model reads only the first 19." in result.stderr
    # Which of the two that it has not learnt by heart is up to the model.
    assert re.search(r"line [34]: the translation was truncated after 9 tokens\.", result.stderr)
    assert "line 5: it is not UTF-8; � replaces the invalid bytes." in result.stderr
    assert "line 1: " not in result.stderr
    assert "犬" not in result.stdout


@pytest.mark.usefixtures("_loaded")
def test_n_best(translator):
    result = _run("model", "--beam", "5", "--n-best", "3", *TEXTS[:2])
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    for number, text in enumerate(TEXTS[:2], start=1):
        scores = [float(row[1]) for row in rows if row[0] == str(number)]
        assert scores == sorted(scores, reverse=True)
        assert len(set(scores)) == 3
        [expected] = translator.translate([text], beam_size=5, n_best=3, note=_quiet)
        assert [row[2] for row in rows if row[0] == str(number)] == [one.text for one in expected]
        assert scores == pytest.approx([one.score for one in expected], abs=1e-4)


@pytest.mark.usefixtures("_loaded")
def test_n_best_widens_the_beam_that_was_trained_for():
    assert len(_run("model", "--n-best", "4", TEXTS[0]).stdout.splitlines()) == 4  # of a model with a beam of 2


@pytest.mark.slow
@pytest.mark.usefixtures("_loaded")
def test_search_options_reach_the_search(translator):
    def texts(*options):
        result = _run("model", *options, *TEXTS)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    assert texts("--greedy") == texts("--beam", "1") == TRANSLATIONS
    scored = [texts("--beam", "4", "--n-best", "2", "--length-penalty", penalty) for penalty in ("0", "3")]
    for lines, penalty in zip(scored, (0.0, 3.0), strict=True):
        found = translator.translate(TEXTS, beam_size=4, n_best=2, length_penalty=penalty, note=_quiet)
        scores = [one.score for translations in found for one in translations]
        assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(scores, abs=1e-4)
    assert scored[0] != scored[1]
    drawn = texts("--sample", "--seed", "5", "--temperature", "2.5")
    assert drawn == texts("--sample", "--seed", "5", "--temperature", "2.5")
    assert drawn != texts("--sample", "--seed", "6", "--temperature", "2.5")
    assert texts("--sample", "--top-k", "1") == texts("--sample", "--top-p", "0.0001") == texts("--greedy")


@pytest.mark.usefixtures("_loaded")
def test_json():
    result = _run("model", "--json", "--n-best", "2", "--attention", "--attention-head", "3", "a 犬 sleeps", "")
    assert result.exit_code == 0, result.output
    record, empty = map(json.loads, result.stdout.splitlines())
    assert record["source"] == "a 犬 sleeps"
    assert [sorted(one) for one in record["translations"]] == [["finished", "log_probability", "score", "text"]] * 2
    assert record["translations"][0]["score"] > record["translations"][1]["score"]
    assert record["notes"][0] == "the model does not know '犬'."
    attention = record["attention"]
    assert attention["source"][-1] == attention["target"][-1] == "[END]"
    assert [len(row) for row in attention["scores"]] == [len(attention["source"])] * len(attention["target"])
    for row in attention["scores"]:
        assert sum(row) == pytest.approx(1, abs=1e-4)
    assert empty == {
        "source": "",
        "translations": [{"text": "", "score": 0.0, "log_probability": 0.0, "finished": True}],
        "notes": [],
    }


@pytest.mark.usefixtures("_loaded")
def test_attention_in_the_terminal():
    result = _run("model", "--attention", TEXTS[0], "", TEXTS[2])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("rows: query tokens") == 2
    assert len({_run("model", "--attention", "--attention-layer", n, TEXTS[0]).stdout for n in ("1", "2")}) == 2
    assert len({_run("model", "--attention", "--attention-head", n, TEXTS[0]).stdout for n in ("1", "2", "3")}) == 3
    last = _run("model", "--attention", "--attention-layer", "2", TEXTS[0])
    assert last.stdout == _run("model", "--attention", TEXTS[0]).stdout


@pytest.mark.usefixtures("_loaded")
@pytest.mark.parametrize(
    ("name", "begin", "options"),
    [("a.png", b"\x89PNG", []), ("a.svg", b"<?xml", ["--attention-head", "2"])],
)
def test_attention_as_a_picture(name, begin, options, tmp_path):
    pytest.importorskip("matplotlib")
    result = _run("model", "--picture", name, *options, TEXTS[0])
    assert result.exit_code == 0, result.output
    assert (tmp_path / name).read_bytes().startswith(begin)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.usefixtures("_loaded")
def test_arguments_that_cannot_be_read():
    result = _run("model", "--attention", "a cat \udcff sleeps", "\u2581")
    assert result.exit_code == 0, result.output
    assert "text 1: it is not UTF-8; � replaces the invalid bytes." in result.stderr
    assert result.stdout.count("rows: query tokens") == 1


@pytest.mark.usefixtures("_loaded")
def test_a_prompt(monkeypatch):
    monkeypatch.setattr(translation, "is_interactive", lambda: True)
    result = _run("model", input=f"{TEXTS[0]}\n\n{TEXTS[1]}\n")  # and then the end, as Ctrl-D gives it
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{TRANSLATIONS[0]}\n{TRANSLATIONS[1]}\n"  # which may be a file
    assert result.stderr == "Type a text and press Enter; Ctrl-D ends.\n> > > > \n"


@pytest.mark.usefixtures("_loaded")
def test_ctrl_c_at_the_prompt_asks_again(monkeypatch):
    monkeypatch.setattr(translation, "is_interactive", lambda: True)
    given = iter([KeyboardInterrupt, TEXTS[1], EOFError])

    def ask(prompt=""):
        answer = next(given)
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", ask)
    result = _run("model")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == TRANSLATIONS[1:2]


def test_lines_are_yielded_as_they_arrive():
    class Slow(io.RawIOBase):
        def __init__(self, *parts):
            self.parts = list(parts)

        def readable(self):
            return True

        def readinto(self, buffer):
            part = self.parts.pop(0) if self.parts else b""
            buffer[: len(part)] = part
            return len(part)

    stream = io.BufferedReader(Slow(b"one\ntw", b"o", b"\n\nthree\nfour\n", b"five"))
    chunks = translation.chunks(stream, 2)
    assert next(chunks) == [b"one"]
    assert stream.raw.parts == [b"o", b"\n\nthree\nfour\n", b"five"]
    assert [*chunks] == [[b"two", b""], [b"three", b"four"], [b"five"]]


@pytest.mark.slow
def test_a_pipe_that_is_slow_and_a_reader_that_goes(model_folder):
    """A line is answered before the next one comes; a reader that has seen enough is no error to be shown."""
    command = [sys.executable, "-c", "from kmha.cli import main; main()", "translate", str(model_folder)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        process.stdin.write(f"{TEXTS[0]}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode().strip() == TRANSLATIONS[0]
        process.stdout.close()
        process.stdin.write(b"a cat sleeps\n" * 300)
        process.stdin.close()
        errors = process.stderr.read().decode()
    assert "Traceback" not in errors
    assert "Exception" not in errors
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--greedy", "--beam", "3"], "--beam is for the beam search: leave --greedy out."),
        (["--sample", "--greedy"], "--greedy and --sample are different search methods: choose one of them."),
        (["--top-k", "5"], "--top-k is for sampling: add --sample."),
        (["--temperature", "0.5", "--beam", "3"], "--temperature is for sampling: add --sample."),
        (["--sample", "--length-penalty", "1"], "--length-penalty is for the beam search: leave --sample out."),
        (["--greedy", "--n-best", "2"], "--n-best is for the beam search and sampling: leave --greedy out."),
        (
            ["--beam", "2", "--n-best", "3"],
            "n_best must be at most beam_size. Received: n_best=3, beam_size=2.",
        ),
        (["--beam", "0"], "0 is not in the range x>=1"),
        (["--temperature", "0"], "0.0 is not in the range x>=1e-06"),
        (["--top-p", "1.5"], "1.5 is not in the range 0<x<=1"),
        (["--picture", "a.bmp"], "'--picture': a.bmp must end in .png or .svg"),
        (["--picture", "no/a.png"], "'--picture': the folder no does not exist"),
        (["--picture", "a.png", "another text"], "--picture draws one sentence: give one TEXT. Received: 2."),
    ],
)
def test_bad_options_are_explained_in_a_line(options, message, monkeypatch):
    monkeypatch.setattr(translation, "load", None)  # nothing is loaded
    result = _run("model", *options, "a text")
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


@pytest.mark.usefixtures("_loaded")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--attention-layer", "3"], "there are 2 layers, counted from 1. Received: 3."),
        (["--attention-head", "4"], "there are 3 heads, counted from 1. Received: 4."),
        (["--attention-head", "0"], "there are 3 heads, counted from 1. Received: 0."),
    ],
)
def test_no_such_layer_or_head(options, message):
    result = _run("model", "--attention", *options, TEXTS[0])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (None, "no-model does not exist. Expected a folder that `kmha train --out DIR` has created."),
        ([], "is not a model folder: it has no config.json."),
        (["config.json"], "has no finished model yet."),
        (["config.json", "model.weights.h5"], "is incomplete: it has no tokenizer.json."),
    ],
)
def test_a_folder_without_a_model_is_a_line(spoil, message, model_folder, tmp_path):
    if spoil is not None:
        (tmp_path / "no-model").mkdir()
        for name in spoil:
            (tmp_path / "no-model" / name).write_bytes((model_folder / name).read_bytes())
    result = _run("no-model", "a text")
    assert result.exit_code == 1
    assert result.output.startswith("Error: no-model ")
    assert message in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("package", "options", "message"),
    [
        ("tokenizers", [], "tokenizers, which kmha translate needs, is not installed."),
        ("matplotlib", ["--picture", "a.png"], "matplotlib, which --picture needs, is not installed."),
    ],
)
def test_a_missing_extra_is_a_line(package, options, message, monkeypatch, model_folder):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    result = _run(model_folder, *options, "a text")
    extra = {"tokenizers": "translate", "matplotlib": "plot"}[package]
    assert result.exit_code == 1
    assert result.output == f"Error: {message} Run: pip install 'kmha[{extra}]'\n"
