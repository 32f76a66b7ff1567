import base64
import json
import os
import re

import numpy as np
import pytest
from click.testing import CliRunner

from kmha.cli import main
from kmha.show.tokens import readable

pytestmark = pytest.mark.tensorflow

TEXTS = ["two dogs run on the sand .", "a cat sleeps ."]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", dict(os.environ))


def _run(*arguments):
    return CliRunner().invoke(main, ["attention", *map(str, arguments)])


def _data(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


@pytest.mark.slow
def test_the_file_and_its_path(model_folder, tmp_path):
    result = _run(model_folder, *TEXTS)
    assert result.exit_code == 0, result.output
    assert result.stdout == "attention.html\n"
    assert [path.name for path in tmp_path.iterdir()] == ["attention.html"]
    data = _data(tmp_path / "attention.html")
    assert data["title"] == f"Attention of {model_folder.name}"
    titles = ["zwei Hunde laufen am Strand .", "eine Katze schläft ."]
    assert [one["title"] for one in data["moments"][0]["sentences"]] == [
        f"{text} → {title}" for text, title in zip(TEXTS, titles, strict=True)
    ]


@pytest.mark.usefixtures("_loaded")
@pytest.mark.parametrize("options", [["--beam", "3"], ["--greedy"]])
def test_the_scores_are_those_of_the_translation(translator, tmp_path, options):
    assert _run("model", "-o", "page.html", *options, TEXTS[0]).exit_code == 0
    (sentence,) = _data(tmp_path / "page.html")["moments"][0]["sentences"]
    best = translator.translate([TEXTS[0]], beam_size=3)[0][0]
    expected = translator.attention(TEXTS[0], best)
    names = {
        "encoder": "encoder_layer{}_self_att",
        "decoder": "decoder_layer{}_block1_self_att",
        "cross-attention": "decoder_layer{}_block2_decenc_att",
    }
    assert [view["name"] for view in sentence["views"]] == [*names]
    for view in sentence["views"]:
        assert len(view["layers"]) == 2
        for number, layer in enumerate(view["layers"], 1):
            scores = expected.scores[names[view["name"]].format(number)]
            found = np.frombuffer(base64.b64decode(layer["scores"]), np.uint8).reshape(scores.shape) / 255
            highest = np.frombuffer(base64.b64decode(layer["highest"]), "<f4").reshape(*scores.shape[:2], 1)
            np.testing.assert_allclose(found * highest, scores, atol=1 / 255 / 2 + 1e-4)
    assert sentence["views"][2]["columns"] == [*readable(expected.source)]


@pytest.mark.usefixtures("_loaded")
def test_steps_end_with_the_scores(translator, tmp_path):
    assert _run("model", "--steps", *TEXTS).exit_code == 0
    for text, sentence in zip(TEXTS, _data(tmp_path / "attention.html")["moments"][0]["sentences"], strict=True):
        expected = translator.attention(text, translator.translate([text])[0][0])
        for view in sentence["views"]:
            for layer in view["layers"]:
                assert layer["heads"] == len(layer["steps"]["heads"])
        steps = sentence["views"][2]["layers"][1]["steps"]
        positions = f"Q comes from the decoder ({len(expected.target_out)} positions); K and V come from the encoder's "
        assert steps["same"].startswith(f"{positions}output, enc_output ({len(expected.source)} source tokens).")
        for head, scores in enumerate(expected.heads(2)):
            np.testing.assert_allclose(steps["heads"][head]["scores"]["values"], scores[:12, :12], atol=0.0006)


@pytest.mark.usefixtures("_loaded")
def test_an_existing_file_is_replaced(tmp_path):
    (tmp_path / "attention.html").write_text("old")
    assert _run("model", TEXTS[1]).exit_code == 0
    assert _data(tmp_path / "attention.html")["moments"][0]["sentences"]


@pytest.mark.usefixtures("_loaded")
def test_warnings_name_the_text():
    result = _run("model", TEXTS[1], "a 犬 sleeps")
    assert result.exit_code == 0, result.output
    assert "text 2: the model does not know '犬'." in result.stderr
    assert result.stderr.count("犬") == 1


@pytest.mark.usefixtures("_loaded")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TEXTS[0], "  "], "text 2 has no words. Received: '  '."),
        ([], "Missing argument 'TEXT...'"),
        (["-o", "no/page.html", "a"], "the folder no does not exist"),
        (["--n-best", "2", "a"], "No such option"),
    ],
)
def test_errors_are_a_line(arguments, message, tmp_path):
    result = _run("model", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not re.search("Traceback", result.output)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_without_a_model(tmp_path):
    result = _run(tmp_path / "missing", "a")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
