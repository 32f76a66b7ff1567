import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import kmha
from kmha.layers import Transformer, prune_heads
from kmha.translation.search import METHODS, Beam, Greedy, Sampling, SearchMethod
from kmha.translation.search.method import usual_length
from kmha.translation.tokenizer import END

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("source_ids", "message"),
    [
        ([4, 5, END], r"integers \(B, S\).*\(3,\)"),
        ([[4.0, 5.0, 2.0]], r"integers \(B, S\).*float64"),
        ([[4, 5, END], [END]], "are not an array.*Pad the sentences with 0"),
        ([[4, END], [0, 0], [5, END]], r"only padding in rows \[1\].*Remove these sentences"),
        ([[]], r"only padding in rows \[0\]"),
        ([[4, 11, END]], "ids from 0 to 10.*ids from 2 to 11.*tokenizer"),
        ([[4, -1, END]], "ids from 0 to 10.*ids from -1 to 4"),
        ([[4] * 18], r"at most 17 positions.*18 positions.*max_positional_encoding_input"),
    ],
)
def test_invalid_source_ids(searching, source_ids, message):
    with pytest.raises(ValueError, match=f"(?s)Greedy received.*`source_ids`.*{message}"):
        Greedy(searching.any_model)(source_ids)


def test_any_integers_are_ids(searching):
    source = np.array([[4, 5, END], [7, END, 0]])
    search = Greedy(searching.any_model, max_length=3)
    expected = search(source.tolist())
    for kind in ("int8", "int32", "int64", "uint16"):
        assert search(source.astype(kind)) == expected
    assert search(tf.constant(source)) == expected


def test_an_empty_batch_has_no_hypotheses(searching):
    assert Greedy(searching.any_model)(np.zeros((0, 5), "int32")) == []


@pytest.mark.parametrize("search", [Greedy, Beam, Sampling])
def test_invalid_limits(searching, search):
    for max_length in (0, -3, 2.5, True, "9", None):
        message = f"{search.__name__}.*`max_length`.*positive integer.*max_length={max_length!r}"
        with pytest.raises(ValueError, match=message):
            search(searching.any_model, max_length=max_length)
        with pytest.raises(ValueError, match=f"{message}.*Let the function return"):
            search(searching.any_model, max_length=lambda length: max_length)([[4, END]])  # noqa: B023


def test_invalid_models():
    sizes = 1, 6, 2, 7, 11
    with pytest.raises(ValueError, match=r"Greedy.*`model`.*kmha.layers.Transformer.*Received: dict"):
        Greedy({})
    with pytest.raises(ValueError, match=r"Greedy.*`model`.*pad_id=3.*pad_id=0"):
        Greedy(Transformer(*sizes, 9, 17, 13, pad_id=3))
    with pytest.raises(ValueError, match=r"Beam.*`model`.*target_vocab_size=3.*at least 4"):
        Beam(Transformer(*sizes, 3, 17, 13))


@pytest.mark.slow
def test_an_unbuilt_model_is_built():
    [[found]] = Greedy(Transformer(1, 6, 2, 7, 11, 9, 17, 13), max_length=2)([[4, END]])
    assert len(found.ids) <= 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("built", [True, False])
def test_removed_heads_are_seen(built):
    """A search that has run before computes with the weights that the model has now, and compiles only if it must."""
    model = Transformer(1, 6, 3, 7, 11, 9, 17, 13)
    if built:
        model.build()
    source = np.array([[4, 5, END], [7, END, 0]])
    search = Greedy(model, max_length=5)
    search(source)
    compiled = search.compiled
    search(source)
    assert search.compiled is compiled
    numbers = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(numbers.normal(size=weight.shape))
    before = search(source)
    assert search.compiled is compiled
    for layer in model.attentions().values():
        prune_heads(layer, [0, 2])
    found, expected = search(source), Greedy(model, max_length=5)(source)
    assert found == expected
    assert found != before


def test_usual_length():
    assert [usual_length(length) for length in (1, 2, 5)] == [11, 13, 17]


def test_a_method_must_override_search(searching):
    with pytest.raises(NotImplementedError, match="SearchMethod must override `_search`"):
        SearchMethod(searching.any_model)([[4, END]])


NEW_METHOD = """
from typing import Annotated, Any

from kmha.translation.search.greedy import Greedy
from kmha.translation.search.method import Length, Option, usual_length


class Stubborn(Greedy):
    name, title, flag, help = "stubborn", "stubborn search", "--stubborn", "Refuse to change one's mind."

    def __init__(
        self,
        model: Any,
        *,
        firmness: Annotated[
            float, Option("How firm it is.", "1 is usual.", lowest=0, highest=9, metavar="F", setting=True)
        ] = 2.5,
        max_length: Length = usual_length,
    ) -> None:
        super().__init__(model, max_length=max_length)
        self.firmness = self._checked("firmness", firmness)
"""

USES = """
import dataclasses
import sys
from click.testing import CliRunner
from kmha.cli import main
from kmha.cli.options import SearchChoice
from kmha.translation.search import METHODS
from kmha.translation.settings import Settings

for command in ("translate", "evaluate"):
    text = " ".join(CliRunner().invoke(main, [command, "--help"]).output.split())
    assert "--stubborn Refuse to change one's mind." in text, text
    assert "--firmness F With --stubborn: how firm it is. [default: the model's setting] [0<=x<=9]" in text, text
result = CliRunner().invoke(main, ["translate", "model", "--firmness", "3", "text"])
assert "--firmness is for stubborn search: add --stubborn." in result.output, result.output
settings = Settings.load("cpu", "dates")
assert settings.search.firmness == 2.5
assert Settings.load("cpu", "dates", ["search.firmness=4"]).search.firmness == 4.0
assert Settings.from_dict(dataclasses.asdict(settings)) == settings
arguments = METHODS["stubborn"].arguments(settings.search, {})
assert arguments["firmness"] == 2.5
assert arguments["max_length"](1000) == settings.search.max_length
assert not {"numpy", "keras", "tensorflow"} & set(sys.modules)
print("as expected")
"""


def test_one_file_adds_a_method(tmp_path):
    """It adds the method to the commands and the settings, without TensorFlow."""
    shutil.copytree(Path(kmha.__file__).parent, tmp_path / "kmha", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "kmha" / "translation" / "search" / "stubborn.py").write_text(NEW_METHOD)
    result = subprocess.run([sys.executable, "-c", USES], cwd=tmp_path, capture_output=True, text=True)
    assert result.stdout == "as expected\n", result.stderr


def test_a_method_that_is_defined_elsewhere_can_be_used_too(searching, monkeypatch):
    monkeypatch.setattr("kmha.translation.search.method.METHODS", dict(METHODS))
    from kmha.translation.search import method

    class Elsewhere(Greedy):
        name = "elsewhere"

    assert method.METHODS["elsewhere"] is Elsewhere
    assert "elsewhere" not in METHODS
    source = searching.padded(searching.sources)
    assert Elsewhere(searching.any_model)(source) == Greedy(searching.any_model)(source)


def test_options_are_read_from_the_signature():
    found = {name: (one.flag, one.kind, one.default, one.setting) for name, one in Beam.options().items()}
    assert found == {
        "beam_size": ("--beam", int, 5, True),
        "length_penalty": ("--length-penalty", float, 0.6, True),
        "n_best": ("--n-best", int, 1, False),
    }
    found = {name: (one.flag, one.kind, one.default, one.setting) for name, one in Sampling.options().items()}
    assert found == {
        "temperature": ("--temperature", float, 1.0, False),
        "top_k": ("--top-k", int, None, False),
        "top_p": ("--top-p", float, None, False),
        "seed": ("--seed", int, None, False),
        "samples": ("--n-best", int, 1, False),
    }
    assert Greedy.options() == SearchMethod.options() == {}
    assert [*METHODS] == ["beam", "greedy", "sampling"]
