import dataclasses
import json
import os

import pytest
from click.testing import CliRunner

from kmha.cli import common, main, training
from kmha.translation.settings import Settings

pytestmark = pytest.mark.tensorflow

ENTRIES = {
    "model.num_layers": 1,
    "model.embedding_dim": 12,
    "model.num_heads": 2,
    "model.fully_connected_dim": 20,
    "data.vocabulary_size": 300,
    "data.max_length": 64,
    "training.tokens_per_batch": 150,
    "training.steps": 4,
    "training.steps_between_checks": 2,
    "training.average": 2,
    "training.scored_sentences": 3,
    "search.max_length": 5,
}
TINY = [part for name, value in ENTRIES.items() for part in ("--set", f"{name}={value}")]
FILES = ["--source", "text.en", "--target", "text.de.gz"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr("sys.argv", ["/somewhere/kmha", "train", "--restart", "--out", "a model"])


def _run(*arguments):
    return CliRunner().invoke(main, ["train", *arguments])


@pytest.fixture
def text(tmp_path):
    """200 pairs: a mark at the beginning, ends of lines of both kinds, no text, 500 words, a character seen once."""
    import gzip

    english, german = ["a dog runs", "two cats sleep", "the bird sings"], ["ein Hund läuft", "zwei Katzen schlafen"]
    sources = [f"{english[number % 3]} {number % 7}" for number in range(200)]
    targets = [f"{german[number % 2]} {number % 7}" for number in range(200)]
    sources[17] = targets[31] = sources[57] = ""
    sources[80], targets[90] = "dog " * 500, "Hund " * 500
    sources[111] = "a 犬 runs"
    (tmp_path / "text.en").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(sources).encode())
    (tmp_path / "text.de.gz").write_bytes(gzip.compress("\n".join(targets).encode() + b"\n"))


@pytest.mark.slow
def test_own_text_with_all_kinds_of_trouble(text, tmp_path):
    result = _run(*FILES, "--out", "made", *TINY, "--probe", "a dog runs", "ein Hund läuft")
    assert result.exit_code == 0, result.output
    assert (
        "files, en to de: 188 training pairs (3 dropped because one side is empty), 9 validation pairs" in result.stderr
    )
    assert "training pairs longer than data.max_length=64 tokens" in result.stderr
    assert "step 2 of 4 · " in result.stderr
    assert "BLEU" in result.stderr
    assert "  model      " in result.stderr
    assert result.stdout.splitlines()[0].startswith("made: 4 steps, ")
    assert result.stdout.splitlines()[1:] == [
        "Attention at each check: made/logs/attention.html",
        "Try it: kmha translate made",
    ]
    assert "a dog runs \\u2192 ein Hund l\\u00e4uft" in (tmp_path / "made/logs/attention.html").read_text()
    config = json.loads((tmp_path / "made/config.json").read_text())
    assert config["result"]["finished"]
    assert str(tmp_path) not in (tmp_path / "made/config.json").read_text()

    blank = _run(*FILES, "--out", "made", *TINY, "--restart", "--probe", " ", "ein Hund")
    assert blank.exit_code == 2
    assert "the first text of --probe has no words. Received: ' '." in blank.stderr

    again = _run(*FILES, "--out", "made", *TINY, "--probe", os.fsdecode(b"a \xff dog"), "ein Hund")
    assert again.exit_code == 0
    assert "--probe, text 1: it is not UTF-8; " in again.stderr
    assert again.stderr.splitlines()[-1].startswith("made is finished: 4 steps, ")
    assert again.stderr.endswith("Use --restart to train it again.\n")

    warmup = Settings.load("cpu", "files").training.warmup_steps
    other = _run(*FILES, "--out", "made", *TINY, "--seed", "3", "--set", "training.warmup_steps=9")
    assert other.exit_code == 1
    assert f"settings.training.warmup_steps was {warmup}, is 9; seed was 0, is 3. Give the same" in other.output
    assert "Traceback" not in other.output


@pytest.mark.slow
def test_time_is_up_and_more_is_given(text, tmp_path):
    result = _run(*FILES, *TINY, "--minutes", "0.0001")
    assert result.exit_code == 0, result.output
    assert "The same command with more --minutes continues from here." in result.stdout
    assert (tmp_path / "files-model/model.weights.h5").exists()
    again = _run(*FILES, *TINY, "--minutes", "0.0001")
    assert again.exit_code == 0
    assert "files-model has used up its time: 1 steps, " in again.stderr
    last = _run(*FILES, *TINY)
    assert last.exit_code == 0
    assert "resuming at step 1 of 4" in last.stderr
    assert "files-model: 4 steps, " in last.stdout


def test_ctrl_c_says_how_to_resume(text, monkeypatch):
    from kmha.translation.training import TrainingRun

    def interrupted(self):
        self._listener.resumed(2)
        self._listener.step(3, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingRun, "train", interrupted)
    result = _run(*FILES, *TINY)
    assert result.exit_code == common.INTERRUPTED
    lines = result.stderr.splitlines()
    assert lines[-2] == "Stopped at step 3. The same command resumes from step 2:"
    assert lines[-1] == "  kmha train --out 'a model'"

    monkeypatch.setattr(TrainingRun, "train", lambda self: _interrupt())  # before it is known where it goes on
    result = _run(*FILES, *TINY)
    assert result.stderr.splitlines()[-2] == "Stopped before the first step. The same command resumes:"

    monkeypatch.setattr(training, "_prepare", lambda *_: _interrupt())
    result = _run(*FILES, *TINY)
    assert result.exit_code == common.INTERRUPTED
    assert result.stderr.endswith("Stopped before training started.\n")


@pytest.mark.parametrize("chosen", ["0", None])
def test_it_trains_with_onednn_unless_the_user_turns_it_off(text, monkeypatch, chosen):
    """TensorFlow reads this when it is imported; without AVX-512 it leaves oneDNN out by itself."""
    monkeypatch.delitem(os.environ, "TF_ENABLE_ONEDNN_OPTS", raising=False)
    if chosen is not None:
        monkeypatch.setitem(os.environ, "TF_ENABLE_ONEDNN_OPTS", chosen)
    seen = []

    def about_to_import(backend):
        seen.append(os.environ.get("TF_ENABLE_ONEDNN_OPTS"))
        raise KeyboardInterrupt

    monkeypatch.setattr(common, "choose_backend", about_to_import)
    assert _run(*FILES, *TINY).exit_code == common.INTERRUPTED
    assert seen == [chosen or "1"]


def test_a_full_disk_is_a_line(text, monkeypatch):
    from kmha.translation.training import TrainingRun

    def full(self):
        self._listener.resumed(2)
        raise OSError(28, "No space left on device", "state.npz")

    monkeypatch.setattr(TrainingRun, "train", full)
    result = _run(*FILES, *TINY, "--out", "made")
    assert result.exit_code == 1
    said = result.stderr.splitlines()[-1]
    assert said.startswith("Error: cannot write made: state.npz: No space left on device. The last checkpoint is")
    assert said.endswith("the same command resumes from step 2.")


@pytest.mark.slow
def test_a_run_that_diverges_ends_and_says_so(text, tmp_path):
    result = _run(*FILES, *TINY, "--set", "training.peak_learning_rate=1e30", "--set", "training.steps=40")
    assert result.exit_code == 1
    assert "Error: the loss became NaN or infinite. Train again with --restart and a lower" in result.stderr
    result = CliRunner().invoke(main, ["translate", "files-model", "a dog runs"])
    assert isinstance(result.exception, SystemExit | None), result.exception  # with the last check that was a model


def _interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["date"], 2, "'date' is not one of 'dates', 'multi30k', 'files'"),
        (["multi30k"], 1, "Error: multi30k needs --data DIR, a folder with the files of"),
        (["multi30k", "--data", "nowhere"], 1, "Error: Multi30k: nowhere is not a folder."),
        (["dates", "--data", "."], 2, "--data is for multi30k, not for dates: kmha train multi30k --data"),
        (["--direction", "de-en"], 2, "--direction is for multi30k, not for dates"),
        (["dates", *FILES], 2, "--source is for your own text: leave dates out."),
        (["--source", "text.en"], 1, "Error: training on files needs --source FILE and --target FILE"),
        ([*FILES, "--validation-target", "v"], 2, "--validation-source and --validation-target go together"),
        (FILES, 1, "Error: text.en cannot be read: No such file or directory."),
        (["--seed", "4294967296"], 2, "4294967296 is not in the range 0<=x<=4294967295"),
        (["--minutes", "nan"], 2, "'nan' is not a finite number"),
        (["--profile", "gpu"], 1, "Error: there is no profile gpu. Choose base, cpu,"),
        (["--profile", "my.toml"], 1, "Error: the profile my.toml cannot be read: No such file or directory."),
        (["--set", "training.step=4"], 1, "Error: --set training.step=4: there is no training.step. Did you mean"),
        (["--set", "data.vocabulary_size=9"], 1, "vocabulary_size must be at least"),
        (["--minutes", "0"], 2, "0 is not in the range x>0"),
        (["--dtype", "float16"], 2, "'float16' is not one of 'float32', 'mixed_float16', 'mixed_bfloat16'"),
        (["--out", "file"], 2, "'--out': Directory 'file' is a file."),
        (["--out", "file/model"], 1, "Error: cannot create file/model: Not a directory."),
    ],
)
def test_errors_take_one_line(arguments, status, message, tmp_path, monkeypatch):
    monkeypatch.setattr(common, "choose_backend", None)  # nothing gets as far as that
    (tmp_path / "file").write_text("")
    result = _run(*arguments)
    assert message in " ".join(result.output.split())
    assert result.exit_code == status
    assert "Traceback" not in result.output


@pytest.mark.parametrize("package", ["tokenizers", "sacrebleu", "babel"])
def test_a_missing_extra_is_named(package, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    result = _run("dates")
    assert result.exit_code == 1
    assert result.output == (
        f"Error: {package}, which kmha train needs, is not installed. Run: pip install 'kmha[translate]'\n"
    )


def test_two_runs_do_not_share_a_folder(text):
    from kmha.translation.preparation import lock_folder

    (path := training.Path("shared")).mkdir()
    with lock_folder(path):
        result = _run(*FILES, "--out", "shared", *TINY)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        "Error: another run is training in shared. Wait for it, or choose another folder with --out."
    )


def test_each_task_has_a_folder_of_its_own():
    empty = dict.fromkeys(("task", "out", "data", "source", "target", "validation_source", "validation_target"))
    rest = {"direction": None, "profile": "cpu", "entries": (), "minutes": None, "seed": 0, "dtype": "float32"}
    choice = training.TrainingChoice(**{**empty, **rest, "restart": False})
    assert str(choice.folder()) == "dates-model"
    both = dataclasses.replace(choice, task="multi30k", direction="de-en")
    assert str(both.folder()) == "multi30k-de-en-model"
