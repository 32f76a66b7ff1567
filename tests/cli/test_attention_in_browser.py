"""Pages of trained models in Chromium: of dates, and of a translation. Every control, key and file is used."""

import csv
import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from kmha.cli import main
from kmha.translation.translator import Translator

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

DATE = "3 mai 1984", "1984-05-03"
TEXTS = {
    "dates": [DATE[0], "the 21st of October 2015"],
    "translation": ["two dogs run on the sand .", "a cat sleeps ."],
}
NAMES = "encoder_layer{}_self_att", "decoder_layer{}_block1_self_att", "decoder_layer{}_block2_decenc_att"


def _run(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def folders(model_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "dates-model"
    entries = "training.steps=24", "training.steps_between_checks=8", "training.scored_sentences=4"
    settings = [part for entry in entries for part in ("--set", entry)]
    _run("train", "dates", "--out", path, "--probe", *DATE, *settings)
    return {"dates": path, "translation": model_folder}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("task", ["dates", "translation"])
def test_every_control(folders, opened, serious_violations, tmp_path, task, width):
    _run("attention", folders[task], *TEXTS[task], "--steps", "-o", tmp_path / "page.html")
    found, translator = opened(tmp_path / "page.html", width, bypass_csp=True), Translator.load(folders[task])
    for number, text in enumerate(TEXTS[task]):
        attention = translator.attention(text, translator.translate([text], note=_ignore)[0][0], note=_ignore)
        found.select_option("#sentence", str(number))
        for view, name in enumerate(NAMES):
            found.select_option("#view", str(view))
            assert found.locator("#layer option").count() == 2
            for layer in range(2):
                found.select_option("#layer", str(layer))
                _check_layer(found, attention.scores[name.format(layer + 1)])
                assert found.evaluate("document.documentElement.scrollWidth") <= width
    for figure in ("map", "arcs", "steps"):
        found.check(f"input[value={figure}]")
        assert serious_violations(found) == []


def _ignore(row, message):
    """The model has not learnt much."""


def _check_layer(found, scores):
    """Compare what the page shows of a layer, in each figure, with its scores (H, T, S)."""
    shown = {"mean": scores.mean(axis=0), "maximum": scores.max(axis=0), **{str(n): x for n, x in enumerate(scores)}}
    for head, expected in shown.items():
        for figure in ("map", "steps" if head.isdigit() else "arcs"):
            found.check(f"input[value={figure}]")
            found.select_option("#head", head)
            if figure == "steps":
                assert found.is_visible("#steps")
                first = found.evaluate(
                    "data.moments[0].sentences[choice.sentence].views[choice.view].layers[choice.layer]"
                )
                np.testing.assert_allclose(
                    first["steps"]["heads"][int(head)]["scores"]["values"], expected[:12, :12], atol=0.0006
                )
            else:
                values = np.array([*found.evaluate("[...shown.values]")]).reshape(expected.shape)
                np.testing.assert_allclose(values, expected, atol=1 / 255)
        found.check("input[value=map]")
    found.select_option("#head", "entropy")
    entropy = -(scores * np.log(np.maximum(scores, 1e-30))).sum(axis=-1).T
    values = np.array([*found.evaluate("[...shown.values]")]).reshape(entropy.shape)
    np.testing.assert_allclose(values, entropy, atol=np.log(max(scores.shape[-1], 2)) / 255)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("task", ["dates", "translation"])
def test_keys_size_table_and_files(folders, opened, tmp_path, task, width):
    _run("attention", folders[task], *TEXTS[task], "-o", tmp_path / "page.html")
    found = opened(tmp_path / "page.html", width)
    heads = found.locator("#head option").count() - 3
    found.focus("#frame")
    for key, shown in (
        ("ArrowDown", "layer 2 of 2, mean of the heads"),
        ("ArrowLeft", f"layer 2 of 2, head {heads}"),
        ("ArrowRight", "layer 2 of 2, mean of the heads"),
        ("ArrowUp", "layer 1 of 2, mean of the heads"),
    ):
        found.keyboard.press(key)
        assert shown in found.text_content("#shown")
    found.keyboard.press("Shift+ArrowDown")
    found.keyboard.press("Shift+ArrowRight")
    rows, columns = found.evaluate("[shown.rows, shown.columns]")
    assert found.text_content("#pair").startswith(f"{rows[0]} → {columns[0]}: ")
    found.keyboard.press("Escape")
    assert found.text_content("#pair") == ""
    before = found.evaluate("at.cellWidth")
    found.fill("#zoom", "3")
    assert found.evaluate("at.cellWidth") > 2 * before
    found.click("#table summary")
    found.wait_for_selector("#table td")
    assert found.locator("#table tbody tr").count() == len(rows)
    files = {}
    for kind in ("png", "svg", "csv"):
        with found.expect_download() as download:
            found.click(f"#{kind}")
        files[kind] = download.value.path().read_bytes()
    assert files["png"].startswith(b"\x89PNG")
    assert ElementTree.fromstring(files["svg"]).tag.endswith("svg")
    table = [*csv.reader(files["csv"].decode("utf-8-sig").splitlines())]
    assert len(table) == len(rows) + 1


@pytest.mark.parametrize("width", [1280, 390])
def test_training_steps(folders, opened, serious_violations, width):
    found = opened(folders["dates"] / "logs/attention.html", width, bypass_csp=True)
    assert serious_violations(found) == []
    found.focus("#moment")
    seen = []
    for step in (24, 16, 8, 0):
        assert f"training step {step}," in found.text_content("#shown")
        seen.append(found.evaluate("[...shown.values]"))
        found.keyboard.press("ArrowLeft")
    assert all(np.abs(np.subtract(one, other)).max() > 0.01 for one, other in itertools.pairwise(seen))
