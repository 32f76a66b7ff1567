import base64
import hashlib
import json
import re
from collections import Counter
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pytest

import kmha
from kmha.show import Captured, capture, page
from kmha.show.html_page import SCRIPTS, _entropy

RANDOM = np.random.default_rng(5)


def _scores(*shape):
    logits = np.exp(2 * RANDOM.normal(size=shape))
    return logits / logits.sum(axis=-1, keepdims=True)


def _data(text):
    """The data of a page, as a browser reads them."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def _array(layer, rows, columns):
    scores = np.frombuffer(base64.b64decode(layer["scores"]), np.uint8).reshape(layer["heads"], rows, columns)
    highest = np.frombuffer(base64.b64decode(layer["highest"]), "<f4").reshape(layer["heads"], rows, 1)
    return scores * (highest / 255)


def _views(*arguments, **options):
    (sentence,) = _data(page(*arguments, **options).html)["moments"][0]["sentences"]
    return {view["name"]: view for view in sentence["views"]}


def test_a_score_is_exact_to_half_a_level_of_its_row():
    scores = _scores(1, 3, 5, 7)
    scores[:, 1, 2] = np.eye(7)[4]  # beside rows that attend to all keys
    views = _views({"block": scores})
    (layer,) = views["attention"]["layers"]
    error = np.abs(_array(layer, 5, 7) - scores[0]) / scores[0].max(axis=-1, keepdims=True)
    assert 0 < error.max() <= 1 / 255 / 2 + 1e-7


def test_small_scores_are_not_lost():
    scores = np.tri(512)[None] / np.arange(1, 513)[:, None]
    scores[:, 100] = 0
    (layer,) = _views({"block": scores})["attention"]["layers"]
    np.testing.assert_allclose(_array(layer, 512, 512), scores, rtol=1e-6)


def test_views_have_their_own_depths_and_tokens():
    scores = {
        "encoder_layer1_self_att": _scores(2, 3, 3),
        **{f"decoder_layer{n}_block1_self_att": _scores(2, 4, 4) for n in (1, 2)},
        **{f"decoder_layer{n}_block2_decenc_att": _scores(2, 4, 3) for n in (1, 2)},
    }
    views = _views(scores, rows=["▁a", "▁dog", "▁runs", "."], columns=["ein", "Hund", "."])
    assert [*views] == ["encoder", "decoder", "cross-attention"]
    assert [len(view["layers"]) for view in views.values()] == [1, 2, 2]
    source, target = ["ein", "Hund", "."], ["a", "dog", "runs", "."]
    assert [view["rows"] for view in views.values()] == [source, target, target]
    assert [view["columns"] for view in views.values()] == [source, target, source]
    for name, view in (("decoder_layer2_block2_decenc_att", views["cross-attention"]["layers"][1]),):
        np.testing.assert_allclose(_array(view, 4, 3), scores[name], atol=0.002)
        assert view["name"] == "layer 2"


def test_layers_of_one_kind_and_other_sizes_are_other_views():
    views = _views({"encoder/first": _scores(2, 5, 5), "encoder/second": _scores(3, 7, 7), "other": _scores(1, 2, 3)})
    assert {name: [layer["name"] for layer in view["layers"]] for name, view in views.items()} == {
        "encoder 5 × 5": ["encoder/first"],
        "encoder 7 × 7": ["encoder/second"],
        "attention": ["other"],
    }


def test_self_attention_of_an_unnamed_layer_needs_its_tokens_once():
    assert _views({"block": _scores(2, 3, 3)}, rows=["a", "b", "c"])["attention"]["columns"] == ["a", "b", "c"]
    assert _views({"block": _scores(2, 3, 4)}, rows=["a", "b", "c"])["attention"]["columns"] == ["0", "1", "2", "3"]


def test_padding_is_not_shown():
    scores = _scores(2, 5, 7)
    view = _views({"block": scores}, rows=["a", "b"], columns=["c", "d", "e"])["attention"]
    np.testing.assert_allclose(_array(view["layers"][0], 2, 3), scores[:, :2, :3], atol=0.002)


def test_a_batch_and_a_list_are_several_sentences():
    captured = Captured(["block"])
    captured.calls["block"] = [_scores(2, 3, 5, 5)]
    one = {"block": _scores(3, 4, 4)}
    rows = ["a b c d e", "f g h", "i j k l"]
    data = _data(page([captured, one], rows=[text.split() for text in rows]).html)
    assert [sentence["title"] for sentence in data["moments"][0]["sentences"]] == rows
    assert [len(sentence["views"][0]["rows"]) for sentence in data["moments"][0]["sentences"]] == [5, 3, 4]
    found = _array(data["moments"][0]["sentences"][1]["views"][0]["layers"][0], 3, 3)
    np.testing.assert_allclose(found, captured["block"][1, :, :3, :3], atol=0.002)
    titles = ["one", "two", "three"]
    data = _data(page([captured, one], titles=titles).html)
    assert [sentence["title"] for sentence in data["moments"][0]["sentences"]] == titles


def test_what_a_translator_returns():
    scores = {"decoder_layer1_block1_self_att": _scores(2, 3, 3), "decoder_layer1_block2_decenc_att": _scores(2, 3, 4)}
    attention = SimpleNamespace(
        scores=scores, source=list("abc."), target_in=["[START]", "d", "e"], target_out=["d", "e", "[END]"]
    )
    views = _views(attention)
    assert views["decoder"]["rows"] == views["decoder"]["columns"] == attention.target_in
    assert views["decoder"]["rowsAre"] == "the token that is fed in (query)"
    assert views["decoder"]["columnsAre"] == "the token that is fed in (key)"
    assert views["cross-attention"]["rows"] == attention.target_out
    assert views["cross-attention"]["rowsAre"] == "the token that is predicted next (query)"
    assert views["cross-attention"]["columns"] == attention.source
    assert views["cross-attention"]["columnsAre"] == "a source token (key)"


def test_the_title_of_a_translation_is_its_text():
    scores = {"decoder_layer1_block1_self_att": _scores(2, 4, 4), "decoder_layer1_block2_decenc_att": _scores(2, 4, 5)}
    attention = SimpleNamespace(
        scores=scores,
        source=["▁3", "▁ma", "i", "▁1984", "[END]"],
        target_in=["[START]", "▁19", "84", "-05"],
        target_out=["▁19", "84", "-05", "[END]"],
    )
    (sentence,) = _data(page(attention).html)["moments"][0]["sentences"]
    assert sentence["title"] == "3 mai 1984 → 1984-05"


def test_exact_zeros_in_every_head_are_marked():
    scores = _scores(2, 3, 5)
    scores[:, :, 3] = 0
    scores[0, 1, 4] = 0
    scores[:, 2, 0] = 1e-6
    (layer,) = _views({"block": scores})["attention"]["layers"]
    found = np.unpackbits(np.frombuffer(base64.b64decode(layer["zeros"]), np.uint8))[:15].reshape(3, 5)
    np.testing.assert_array_equal(found, np.arange(5) == np.full((3, 1), 3))
    (layer,) = _views({"block": _scores(2, 3, 5)})["attention"]["layers"]
    assert layer["zeros"] == ""


def test_what_scores_tell_of_a_mask_and_of_their_sums():
    scores = _scores(2, 3, 5)
    masked, half, halved = scores.copy(), scores.copy(), scores / 2
    masked[:, 1, 4] = 0
    half[0, 1, 4] = 0
    (view,) = _views({"a": scores, "b": masked, "c": half, "d": halved}).values()
    assert [(layer["masked"], layer["sums"]) for layer in view["layers"]] == [
        ("nothing is masked", True),
        ("0 in every head: masked", False),
        ("no score is 0 in every head", False),
        ("nothing is masked", False),
    ]


def test_entropy_is_computed_before_scores_become_bytes():
    scores = np.full((2, 3, 500), 1 / 500)
    scores[1, 2] = np.eye(500)[7]
    scores[1, 1] = np.repeat([0.5, 0], 250) / 125
    expected = np.array([[1, 1], [1, np.log(250) / np.log(500)], [1, 0]])
    np.testing.assert_allclose(_entropy(scores), expected, atol=1e-12)


def test_tokens_end_no_script_and_start_no_comment():
    tokens = ["</script><script>alert(1)</script>", "<!--", "{{script}}", "\u2028", "<img src=x onerror=alert(1)>"]
    text = page({"block": _scores(2, 5, 5)}, rows=tokens, title="</title><b>").html
    assert text.count("<script") == text.count("</script>") == 2
    assert not re.search("<!--|<img|<b>|\u2028", text)
    (sentence,) = _data(text)["moments"][0]["sentences"]
    assert sentence["views"][0]["rows"][:3] == tokens[:3]


def test_characters_that_no_file_has_are_shown(tmp_path):
    path = tmp_path / "attention.html"
    bad = "a\tb\x07\ud83d\uffff"
    shown = page({bad: _scores(2, 3, 3)}, path, [bad, "c"], title=bad, titles=[bad])
    data = _data(path.read_text(encoding="utf-8"))
    (sentence,) = data["moments"][0]["sentences"]
    (view,) = sentence["views"]
    expected = r"a\tb\x07\ud83d\uffff"
    assert (data["title"], sentence["title"]) == (expected, expected)
    assert (view["rows"][0], view["layers"][0]["name"]) == (expected, expected)
    assert shown.html.count(f"<title>{expected}</title>") == 1


def test_the_page_allows_only_its_own_script_and_style():
    text = page({"block": _scores(2, 3, 3)}).html
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; ")
    for name in ("script", "style"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_six_layers_of_eight_heads_of_128_tokens_are_small():
    scores = {f"encoder_layer{n}_self_att": np.full((8, 128, 128), 1 / 128, np.float32) for n in range(1, 7)}
    assert len(page(scores).html.encode()) < 1_500_000


def test_a_notebook_shows_it_in_a_frame():
    shown = page({"block": _scores(2, 3, 3)}, title='a "title"')
    frame = shown._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert frame.count('"') == 2 * len(re.findall(r' \w+="', frame))
    assert repr(shown) == f"Page(1 sentence, {len(shown.html.encode()):,} bytes, not written to a file)"
    assert len(shown.html.encode()) > len(shown.html)
    assert shown.path is None


def test_a_file(tmp_path):
    path = tmp_path / "attention.html"
    path.write_text("old")
    shown = page({"block": _scores(2, 3, 3)}, path)
    assert path.read_text(encoding="utf-8") == shown.html
    assert shown.path == path
    with pytest.raises(FileNotFoundError, match="create it first"):
        page({"block": _scores(2, 3, 3)}, tmp_path / "missing" / "attention.html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([np.ones((2, 3, 3))], "page: expected scores by name of the layer.*Received: ndarray"),
        ([{}], "Received: dict without layers"),
        ([[]], "page: there are no scores"),
        ([{"a": np.ones((3, 3))}], r"page, 'a': expected \(H, T, S\).*Received the shape \(3, 3\)"),
        ([{"a": np.full((2, 3, 3), -1.0)}], "page, 'a': .*values from -1 to -1"),
        ([{"a": np.full((2, 3, 3), np.nan)}], "page, 'a': .*values from nan to nan"),
        ([{"a": np.ones((2, 1, 3, 3)), "b": np.ones((3, 1, 3, 3))}], "the same B.*'a': 2, 'b': 3"),
        ([{"a": np.ones((2, 3, 3))}, None, ["a", "b", "c", "d"]], "page, 'a': rows: expected at most 3 query tokens"),
        ([{"a": np.ones((2, 1, 3, 3))}, None, ["a", "b", "c"]], "each of the 2 sentences in rows. Received 1"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        page(*arguments)


def test_titles_are_one_for_each_sentence():
    with pytest.raises(ValueError, match=r"expected 1 titles.*Received: \['a', 'b'\]"):
        page({"block": _scores(2, 3, 3)}, titles=["a", "b"])
    with pytest.raises(ValueError, match="Received: 'a'"):
        page({"block": _scores(2, 3, 3)}, titles="a")


def _steps(captured, **options):
    """The steps of the first layer of the first view, for each sentence."""
    sentences = _data(page(captured, **options).html)["moments"][0]["sentences"]
    return [sentence["views"][0]["layers"][0]["steps"] for sentence in sentences]


def test_steps_are_the_first_numbers_of_a_calculation():
    layer = kmha.MultiHeadAttention(3, 7, name="mha")
    query, value = (RANDOM.normal(size=shape).astype("float32") for shape in ((2, 5, 4), (2, 13, 8)))
    mask = RANDOM.random((2, 5, 13)) < 0.5
    with capture(layer, steps=True) as captured:
        layer(query, value, attention_mask=mask)
    found = _steps(captured)[1]
    calculation = captured.steps["mha"]
    expected = {
        "query": calculation.projected("query")[1, :, 2, :6],
        "keyKernel": calculation.kernels["key"][2, :6, :6],
        "valueBias": calculation.biases["value"][2, None, :6],
        "logits": calculation.logits[1, 2, :, :12],
        "masked": np.where(mask[1, :, :12], calculation.logits[1, 2, :, :12], -np.inf),
        "mask": mask[1, :, :12],
        "scores": calculation.scores[1, 2, :, :12],
        "mixed": calculation.mixed[1, :, 2, :6],
        "outputKernel": calculation.kernels["output"][2, :6],
        "part": calculation.parts[1, 2],
    }
    for name, array in expected.items():
        actual = np.array(found["heads"][2][name]["values"], float)
        np.testing.assert_allclose(actual, array, atol=0.0006, err_msg=name)
    assert found["heads"][2]["logits"]["shape"] == [5, 13]
    assert found["sizes"] == {"T": 5, "S": 13, "H": 3, "I": 4, "O": 7, "E": 4}
    np.testing.assert_allclose(found["output"]["values"], calculation.output[1], atol=0.0006)
    assert found["same"].startswith("Q comes from the query input (5 positions). Key and value are the same input (13 ")
    assert [*found["inputNames"].values()] == ["query input", "key input", "value input"]


def test_steps_of_a_layer_without_biases_have_none():
    layer = kmha.MultiHeadAttention(2, 3, use_bias=False, name="mha")
    x = RANDOM.normal(size=(1, 5, 4))
    with capture(layer, steps=True) as captured:
        layer(x, x)
    (found,) = _steps(captured)
    assert {name for name in found["heads"][1] if "Bias" in name} == set()
    assert not captured.steps["mha"].item(0).use_bias


def test_steps_say_which_inputs_are_the_same():
    layer = kmha.MultiHeadAttention(2, 3, name="mha")
    x, y, z = (RANDOM.normal(size=(1, 5, 4)).astype("float32") for _ in range(3))
    for arguments, text, name in (
        ((x, x), "Query, key and value are the same input, x (5 positions)", "x"),
        ((x, y, z), "Query, key and value are different", "key input"),
    ):
        with capture(layer, steps=True) as captured:
            layer(*arguments)
        (found,) = _steps(captured)
        assert found["same"].startswith(text)
        assert found["inputNames"]["key"] == name
        assert "mask" not in found["heads"][0]


def test_steps_are_without_padding_and_given_for_each_sentence():
    layer = kmha.MultiHeadAttention(2, 3, name="mha")
    x = RANDOM.normal(size=(1, 5, 4)).astype("float32")
    with capture(layer, steps=True) as captured:
        layer(x, x)
    (found,) = _steps(captured, rows=["a", "b", "c"])
    assert found["heads"][0]["scores"]["shape"] == [3, 3]
    assert found["heads"][0]["key"]["shape"] == [3, 3]
    scores = {"mha": captured["mha"]}
    assert _steps(scores) == [None]
    assert _steps(scores, steps=captured.steps) == _steps(captured)
    assert [one is None for one in _steps([scores, scores], steps=[{}, captured.steps])] == [True, False]
    with pytest.raises(ValueError, match=r"steps for each of the 2 sentences\. Received 1"):
        page([scores, scores], steps=captured.steps)


def test_each_sentence_has_its_own_steps():
    """Also if a search kept several hypotheses of a sentence, whose encoder ran once."""
    layer = kmha.MultiHeadAttention(2, 3, name="mha")
    x = RANDOM.normal(size=(2, 4, 5))
    with capture(layer, steps=True) as captured:
        layer(x[:1], x[:1])
        layer(x[1:], x[1:])
    first, second = _steps(captured)
    assert first != second
    scores = {"mha": captured["mha"]}
    assert _steps(scores, steps=[captured.steps, captured.steps]) == [first, second]
    captured.calls["mha"] = [captured["mha"][[1, 1, 0]]]
    assert _steps(captured) == [second, second, first]


def test_steps_of_other_scores_are_not_shown():
    layer = kmha.MultiHeadAttention(2, 3, name="mha")
    x = RANDOM.normal(size=(1, 4, 5))
    with capture(layer, steps=True) as captured:
        layer(x, x)
        layer.set_weights([2 * weight + 1 for weight in layer.get_weights()])
    assert _steps(captured) == [None]
    with pytest.raises(ValueError, match="the steps of 'mha' are not those of the scores of sentence 1"):
        page({"mha": captured["mha"]}, steps=captured.steps)
    with pytest.raises(ValueError, match="the steps of 'mha' are not those"):
        page({"other": captured["mha"]}, steps=captured.steps)


def test_a_layer_of_a_decoder_with_other_keys_is_cross_attention():
    views = _views({"decoder/attention_2": _scores(2, 3, 5)}, rows=list("abc"), columns=list("vwxyz"))
    assert (views["cross-attention"]["rows"], views["cross-attention"]["columns"]) == (list("abc"), list("vwxyz"))


@pytest.mark.parametrize("rows", ["abc", 5])
def test_tokens_that_are_no_list(rows):
    with pytest.raises(ValueError, match=r"expected a list of tokens in rows, such as text\.split\(\)\. Received"):
        page({"layer": _scores(2, 3, 3)}, rows=rows)


def test_no_script_defines_what_another_one_does():
    """They are joined into one, in which the later function would replace the earlier one."""
    names = []
    for path in (resources.files("kmha.show") / "web").iterdir():
        if path.name.endswith(".js"):
            pattern = r"^(?:export )?(?:function|class|const|let) (\w+)"
            names += re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) > 30
    assert [name for name, count in Counter(names).items() if count > 1] == []
    scripts = {f"{name}.js" for name in SCRIPTS}
    assert scripts | {"page.html", "page.css"} == {
        path.name for path in (resources.files("kmha.show") / "web").iterdir()
    }


def test_training_steps():
    scores = {step: {"mha": RANDOM.dirichlet(np.ones(4), (2, 1, 4))} for step in (250, 0, 1000)}
    data = _data(page(scores, rows=[list("abcd"), list("efg")]).html)
    assert [moment["step"] for moment in data["moments"]] == [0, 250, 1000]
    for moment in data["moments"]:
        titles = [sentence["title"] for sentence in moment["sentences"]]
        assert titles == ["a b c d", "e f g"]
        for sentence, expected, size in zip(moment["sentences"], scores[moment["step"]]["mha"], (4, 3), strict=True):
            (layer,) = sentence["views"][0]["layers"]
            np.testing.assert_allclose(_array(layer, size, size), expected[:, :size, :size], rtol=0, atol=1 / 510)


def test_other_sentences_at_a_training_step():
    one = np.full((1, 2, 3, 3), 1 / 3)
    with pytest.raises(ValueError, match=r"at each training step\. Step 9 has others than step 4"):
        page({4: {"mha": one}, 9: {"mha": one, "other": one}})
    with pytest.raises(ValueError, match=r"^page, 'mha': expected scores .* \(training step 9\)"):
        page({4: {"mha": one}, 9: {"mha": one * 9}})
    with pytest.raises(ValueError, match="the same sentences and layers"):
        page({4: [{"encoder": one}, {"cross": one}], 9: [{"encoder": one, "cross": one}]})
    with pytest.raises(ValueError, match="expected one mapping by training step, whose values have all sentences"):
        page([{4: {"mha": one}}, {4: {"mha": one}}])


def test_layers_whose_names_are_numbers():
    one = np.full((1, 2, 3, 3), 1 / 3)
    (moment,) = _data(page({0: one, 1: one}).html)["moments"]
    assert [layer["name"] for layer in moment["sentences"][0]["views"][0]["layers"]] == ["0", "1"]
