"""The page in Chromium: every view, control, key and file, at two widths."""

import csv
import io
import json
import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import kmha
from kmha.show import capture, page
from kmha.show.scores import colour

pytestmark = pytest.mark.slow

SOURCE = [
    "</script><script>document.title='hit'</script>",
    "<img src=x onerror=\"document.title='hit'\">",
    "שלום",
    "👩‍👩‍👧‍👦",
]
TARGET = ["the", "=1+1", 'a"b', "&amp;", "مرحبا"]
VIEWS = {"encoder": 2, "decoder": 3, "cross-attention": 3}  # with the number of layers
HEADS = 3
RANDOM = np.random.default_rng(7)
WIDTHS = pytest.mark.parametrize("width", [1280, 390])
# Chromium would print that it reads a canvas slowly, had the canvas itself been read.
READ = """const read = (canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return copy.getImageData(0, 0, canvas.width, canvas.height).data;
};"""
# The colours in the middle of all cells. The page's own names are global.
PIXELS = f"""() => {{ {READ}
  const data = read(drawn);
  const scale = drawn.width / at.width;
  return [...shown.values.keys()].map((index) => {{
    const x = at.left + ((index % shown.columns.length) + 0.5) * at.cellWidth;
    const y = at.top + (Math.floor(index / shown.columns.length) + 0.5) * at.cellHeight;
    const start = 4 * (Math.floor(y * scale) * drawn.width + Math.floor(x * scale));
    return [...data.slice(start, start + 3)];
  }});
}}"""
# The width of a text of the legend.
WIDE = "(text) => ((measuring.font = `12px ${FONT}`), measuring.measureText(text).width)"
INK = f"""(id) => {{ {READ}
  return read(document.getElementById(id)).filter((value, index) => index % 4 === 3 && value).length;
}}"""


def _scores(heads, rows, columns, causal=False):
    logits = np.exp(2 * RANDOM.normal(size=(heads, rows, columns)))
    logits = np.tril(logits) if causal else logits
    return logits / logits.sum(axis=-1, keepdims=True)


SCORES = {
    "encoder": [_scores(HEADS, 4, 4) for _ in range(2)],
    "decoder": [_scores(HEADS, 5, 5, causal=True) for _ in range(3)],
    "cross-attention": [_scores(HEADS, 5, 4) for _ in range(3)],
}
NAMES = {
    "encoder": "encoder_layer{}_self_att",
    "decoder": "decoder_layer{}_block1_self_att",
    "cross-attention": "decoder_layer{}_block2_decenc_att",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A page of two sentences. The second one has other layers."""
    first = {NAMES[view].format(n): one for view, layers in SCORES.items() for n, one in enumerate(layers, 1)}
    second = {"block/mha": _scores(2, 3, 3)}
    path = tmp_path_factory.mktemp("page") / "attention.html"
    page([first, second], path, [TARGET, ["x", "y", "z"]], [SOURCE, None], title="<b>Attention</b> & more")
    return path


@pytest.fixture
def opened(file, opened):
    """A function that opens the page, or another one."""
    return lambda width=1280, path=file, **options: opened(path, width, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A page of one sentence at three training steps, with its scores."""
    scores = {step: {"mha": _scores(HEADS, 5, 5)} for step in (0, 1500, 3000)}
    path = tmp_path_factory.mktemp("trained") / "attention.html"
    page(scores, path, TARGET)
    return path, scores


@WIDTHS
def test_the_slider_over_training_steps(opened, trained, width):
    path, scores = trained
    found = opened(width, path)
    assert opened(width).is_hidden("#moment")
    highest = max(_shown(one["mha"], "mean")[1] for one in scores.values())  # colours can be compared

    def check(step):
        expected = [colour(value / highest) for value in scores[step]["mha"].mean(axis=0).flat]
        np.testing.assert_allclose(found.evaluate(PIXELS), expected, atol=6, err_msg=str(step))
        assert f"training step {step}," in found.text_content("#shown")
        assert found.text_content("#moment-step") == f"step {step}"
        assert found.get_attribute("#moment", "aria-valuetext") == f"step {step}"

    check(3000)
    found.focus("#moment")
    for step in (1500, 0, 0):
        found.keyboard.press("ArrowLeft")
        check(step)
    box = found.locator("#moment").bounding_box()
    found.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    check(1500)
    found.click("#drawn", position=found.evaluate("({x: at.left + 3, y: at.top + 3})"))
    found.focus("#moment")
    found.keyboard.press("End")
    check(3000)
    assert found.text_content("#pair").endswith(" (pinned)")
    for head, text in (("mean", "largest mean of all steps"), ("1", "largest of all steps"), ("entropy", "possible")):
        found.select_option("#head", head)
        (line,) = [line for line in _texts(_saved(found, "#svg")[1]) if line and line.endswith(text)]
        assert found.evaluate(f"(line) => 152 + ({WIDE})(line) < at.width", line)
    assert found.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_serious_in_the_slider_for_axe(opened, trained, serious_violations):
    assert serious_violations(opened(390, trained[0], bypass_csp=True)) == []


def _open_table(found):
    found.click("#table summary")
    found.wait_for_selector("#table td")


def _shown(scores, head):
    """The matrix that the page shows, and the end of its scale."""
    if head == "entropy":
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(scores > 0, scores * np.log(scores), 0)
        return -terms.sum(axis=-1).T, np.log(scores.shape[-1])
    if head == "mean":
        return scores.mean(axis=0), scores.mean(axis=0).max()
    return scores.max(axis=0) if head == "maximum" else scores[int(head)], scores.max()


@WIDTHS
def test_every_view_layer_and_head_as_a_heat_map(opened, width):
    found = opened(width)
    for number, (view, depth) in enumerate(VIEWS.items()):
        found.select_option("#view", str(number))
        assert found.locator("#layer option").count() == depth
        for layer in range(depth):
            found.select_option("#layer", str(layer))
            for head in ("mean", "maximum", "entropy", *map(str, range(HEADS))):
                found.select_option("#head", head)
                scores = SCORES[view][layer]
                values, highest = _shown(scores, head)
                expected = np.array([colour(value / highest) for value in values.flat])
                if head != "entropy":
                    expected[(scores == 0).all(axis=0).flat] = 0xD9
                np.testing.assert_allclose(found.evaluate(PIXELS), expected, atol=6, err_msg=f"{view} {layer} {head}")
                text = found.text_content("#shown")
                name = f"head {int(head) + 1}" if head.isdigit() else f"{head} of "
                assert text.startswith(f"{view}: layer {layer + 1} of {depth}, {name}")
                assert text.endswith(", as heat map")
                assert found.evaluate("document.documentElement.scrollWidth") <= width


@WIDTHS
def test_arcs(opened, width):
    found = opened(width)
    found.check("input[value=arcs]")
    assert found.text_content("#shown").endswith("as arcs")
    for view in range(3):
        found.select_option("#view", str(view))
        for head in ("entropy", "maximum", "2"):
            found.select_option("#head", head)
            assert found.evaluate(INK, "drawn") > 1000
            assert found.evaluate("document.documentElement.scrollWidth") <= width
    before = found.evaluate(INK, "marked")
    at = found.evaluate("at")
    found.hover("#drawn", position={"x": at["left"] / 2, "y": at["top"] + 1.5 * at["line"]})
    row = SCORES["cross-attention"][0][2][1]
    order = np.argsort(-row)
    expected = ", ".join(f"{SOURCE[index]}: " for index in order[:1])
    assert found.text_content("#pair").startswith(f"{TARGET[1]} → {expected}")
    assert found.evaluate(INK, "marked") > before
    assert found.evaluate("drawn.className") == "dim"
    found.hover("#drawn", position={"x": (at["right"] + at["width"]) / 2, "y": at["top"] + 0.5 * at["lineOfColumns"]})
    assert found.text_content("#pair").endswith(f"→ {SOURCE[0]}")
    found.mouse.move(1, 1)
    assert found.text_content("#pair") == ""
    assert found.evaluate("drawn.className") == ""


@WIDTHS
def test_hovering_a_cell_shows_its_score(opened, width):
    found = opened(width)
    found.select_option("#head", "1")
    at = found.evaluate("at")
    x, y = at["left"] + 3.5 * at["cellWidth"], at["top"] + 2.5 * at["cellHeight"]
    found.hover("#drawn", position={"x": x, "y": y})
    pair, score = found.text_content("#pair").rsplit(": ", 1)
    assert pair == f"{TARGET[2]} → {SOURCE[3]}"
    assert float(score) == pytest.approx(SCORES["cross-attention"][0][1, 2, 3], abs=1 / 255 / 2 + 0.0005)
    assert found.evaluate(INK, "marked") > 100
    found.hover("#drawn", position={"x": 2, "y": y})
    assert found.text_content("#pair").startswith(f"{TARGET[2]} → ")
    assert found.text_content("#pair").count(": ") == 4
    found.hover("#drawn", position={"x": at["left"] + 2.5 * at["cellWidth"], "y": y})  # a token from right to left
    lefts = found.evaluate("[...document.querySelectorAll('#pair bdi')].map(e => e.getBoundingClientRect().left)")
    assert lefts == sorted(lefts)
    assert found.text_content("#pair bdi:last-child") == SOURCE[2]


@WIDTHS
def test_a_click_pins_a_cell_until_the_next_one_or_escape(opened, width):
    found = opened(width)
    at = found.evaluate("at")
    place = lambda row, column: {  # noqa: E731
        "x": at["left"] + (column + 0.5) * at["cellWidth"],
        "y": at["top"] + (row + 0.5) * at["cellHeight"],
    }
    words = lambda row, column: f"{TARGET[row]} → {SOURCE[column]}: "  # noqa: E731
    text = lambda: found.text_content("#pair")  # noqa: E731
    found.click("#drawn", position=place(2, 3))
    assert text().startswith(words(2, 3))
    assert text().endswith(" (pinned)")
    assert found.evaluate("pair.getBoundingClientRect().bottom <= frame.getBoundingClientRect().top")
    found.hover("#drawn", position=place(1, 0))
    found.mouse.move(1, 1)
    assert text().startswith(words(2, 3))
    found.click("#drawn", position=place(4, 1))
    assert text().startswith(words(4, 1))
    assert text().endswith(" (pinned)")
    found.click("#drawn", position=place(4, 1))
    assert text().startswith(words(4, 1))
    assert not text().endswith(" (pinned)")
    found.click("#drawn", position=place(0, 2))
    found.focus("#view")
    found.keyboard.press("Escape")
    assert text() == ""
    found.hover("#drawn", position=place(1, 0))
    assert text().startswith(words(1, 0))


def test_a_tap_pins_a_cell(opened):
    found = opened(390, has_touch=True)
    at = found.evaluate("at")
    place = {"x": at["left"] + 1.5 * at["cellWidth"], "y": at["top"] + 2.5 * at["cellHeight"]}
    found.tap("#drawn", position=place)
    assert found.text_content("#pair").startswith(f"{TARGET[2]} → {SOURCE[1]}: ")
    assert found.text_content("#pair").endswith(" (pinned)")


def test_a_finger_that_is_dragged_shows_the_values(opened):
    found = opened(390, has_touch=True)
    at = found.evaluate("({ ...at, x: drawn.getBoundingClientRect().x, y: drawn.getBoundingClientRect().y })")
    touch = found.context.new_cdp_session(found)

    def send(kind, row=None, column=None):
        x = at["x"] + at["left"] + ((column or 0) + 0.5) * at["cellWidth"]
        y = at["y"] + at["top"] + ((row or 0) + 0.5) * at["cellHeight"]
        points = [] if row is None else [{"x": x, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def said(row, column, end=""):
        text = found.text_content("#pair")
        return text.startswith(f"{TARGET[row]} → {SOURCE[column]}: ") and text.endswith(" (pinned)") == bool(end)

    for pin in (False, True):
        if pin:
            found.touchscreen.tap(at["x"] + at["left"] + 2, at["y"] + at["top"] + 2)
            assert said(0, 0, "pinned")
        send("touchStart", 2, 0)
        assert said(0, 0, "pinned") if pin else said(2, 0)
        for row, column in ((2, 1), (2, 2), (3, 3), (1, 3)):
            send("touchMove", row, column)
            found.wait_for_timeout(50)
            assert said(row, column)
        send("touchEnd")
        assert said(1, 3)


@WIDTHS
def test_equal_scores_have_few_arcs(opened, tmp_path, width):
    path = tmp_path / "uniform.html"
    scores = np.full((2, 70, 80), 1 / 80)
    scores[0, 0, 0] = 0
    page({"block": scores, "other": RANDOM.dirichlet(np.full(60, 0.1), size=(1, 70))}, path)
    found = opened(width, path)
    found.select_option("#view", "0")
    found.check("input[value=arcs]")
    _, content = _saved(found, "#svg")
    assert content.count(b"<path ") == 3000
    legend = "no score is 0 in every head; at most 3000 arcs"
    assert legend in _texts(content)
    assert found.evaluate(f"(text) => 4 + ({WIDE})(text) < at.width", legend)
    found.focus("#frame")
    found.keyboard.press("Shift+ArrowDown")
    found.keyboard.press("Shift+ArrowDown")
    assert found.text_content("#pair").count(": 0.013") == 5
    found.select_option("#view", "1")
    _, content = _saved(found, "#svg")
    assert 100 < content.count(b"<path ") < 3000
    assert any("no arcs below 0." in text for text in _texts(content))


@WIDTHS
@pytest.mark.parametrize("figure", ["map", "arcs", "steps"])
def test_a_change_of_tokens_ends_the_choice(opened, stepped, tmp_path, width, figure):
    layer, x = kmha.MultiHeadAttention(2, 3, name="mha"), RANDOM.normal(size=(1, 2, 4))
    with capture(layer, steps=True) as captured:
        layer(x, x)
    path = tmp_path / "sentences.html"
    (scores, steps), (_, first) = ({"mha": captured["mha"]}, captured.steps), stepped
    page([{"mha": first["mha"].scores}, scores], path, steps=[{"mha": first["mha"]}, steps])
    found = opened(width, path)
    found.focus("#frame")
    for key in ("Shift+ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight", "Shift+ArrowDown", "Enter"):
        found.keyboard.press(key)
    assert found.text_content("#pair").endswith(" (pinned)")
    found.check(f"input[value={figure}]")
    found.select_option("#head", "1")
    assert found.text_content("#pair").startswith("2 → 0: ")
    found.select_option("#sentence", "1")
    assert found.text_content("#pair") == ""
    assert found.evaluate("chosen") == {"row": -1, "column": -1}
    found.check("input[value=map]")
    assert found.text_content("#pair") == ""
    found.hover("#drawn", position={"x": 2, "y": found.evaluate("at.top + 1")})
    assert found.text_content("#pair").startswith("0 → ")
    assert not found.text_content("#pair").endswith(" (pinned)")
    found.keyboard.press("Escape")
    found.focus("#frame")
    for key in ("Shift+ArrowDown", "Shift+ArrowRight"):
        found.keyboard.press(key)
    assert found.text_content("#pair").startswith("0 → 0: ")
    found.select_option("#head", "entropy")  # whose columns are heads
    assert found.text_content("#pair") == ""


@WIDTHS
def test_masked_cells_and_the_legend(opened, width):
    found = opened(width)
    found.select_option("#view", "1")
    at = found.evaluate("at")
    found.hover("#drawn", position={"x": at["left"] + 3.5 * at["cellWidth"], "y": at["top"] + 1.5 * at["cellHeight"]})
    assert found.text_content("#pair") == f"{TARGET[1]} → {TARGET[3]}: masked"
    decoder, largest = "0 in every head: masked", f"{SCORES['decoder'][0].max():.3f}"
    sums = "; each row adds up to 1"
    for figure, axes in (("map", ["row", "column"]), ("arcs", ["left (row)", "right (column)"])):
        found.check(f"input[value={figure}]")
        for view, head, expected in (
            ("1", "1", [f"{largest}, largest of all heads", f"scores after softmax{sums}", decoder]),
            ("1", "mean", [", largest mean shown", f"mean of the scores after softmax{sums}", decoder]),
            ("1", "maximum", [f"{largest}, largest of all heads", "maximum of the scores after softmax", decoder]),
            ("1", "entropy", ["1.609 nats, largest possible", "entropy of the scores of each query"]),
            ("0", "1", [", largest of all heads", f"scores after softmax{sums}", "nothing is masked"]),
        ):
            found.select_option("#view", view)
            found.select_option("#head", head)
            kind = "target" if view == "1" else "source"
            columns = "a head" if head == "entropy" else f"a {kind} token (key)"
            texts = _texts(_saved(found, "#svg")[1])
            assert f"{axes[0]}: a {kind} token (query)" in texts
            assert f"{axes[1]}: {columns}" in texts
            for text in expected:
                if text.startswith(","):
                    assert any(found_text.endswith(text) for found_text in texts)
                else:
                    assert any(one == text or one.startswith(f"{text}; no arcs below ") for one in texts), text


@WIDTHS
def test_marked_labels_fit(opened, width, tmp_path):
    """Bold labels are wider. What is drawn for them must not touch the edges of the picture."""
    path = tmp_path / "wide.html"
    scores = {"block": _scores(2, 4, 3)}
    page(scores, path, ["WWWWWWWWWWWWW", "b", "c", "d"], ["MMMMMMMMMMMMM", "f", "gg"])
    found = opened(width, path)
    at = found.evaluate("at")
    assert at["upright"] == [True, False, True]
    found.hover("#drawn", position={"x": at["left"] + 4, "y": at["top"] + 4})
    edges = f"""() => {{ {READ}
      const data = read(marked);
      const accent = (start) => [179, 70, 11].every((value, i) => Math.abs(data[start + i] - value) < 60);
      let [left, top] = [Infinity, Infinity];
      for (let index = 0; index < data.length / 4; index++) {{
        if (!accent(4 * index) || data[4 * index + 3] < 128) continue;
        left = Math.min(left, index % marked.width);
        top = Math.min(top, Math.floor(index / marked.width));
      }}
      return [left, top];
    }}"""
    left, top = found.evaluate(edges)
    assert 1 <= left <= 12
    assert 1 <= top <= 12


@WIDTHS
def test_keys(opened, width):
    found = opened(width)
    order = []
    for _ in range(11):
        found.keyboard.press("Tab")
        order.append(found.evaluate("document.activeElement.id || document.activeElement.name"))
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert found.evaluate(outline) not in ("none", ""), order[-1]
    assert order[:10] == ["sentence", "view", "layer", "head", "figure", "zoom", "png", "svg", "csv", "frame"]
    found.focus("#frame")
    press = found.keyboard.press
    for key, chosen in (
        ("ArrowRight", "maximum"),
        ("ArrowRight", "entropy"),
        ("ArrowRight", "0"),
        ("ArrowLeft", "entropy"),
        ("ArrowLeft", "maximum"),
        ("ArrowLeft", "mean"),
        ("ArrowLeft", "2"),
        ("ArrowRight", "mean"),
        ("ArrowLeft", "2"),
        ("ArrowLeft", "1"),
        ("ArrowLeft", "0"),
        ("ArrowLeft", "entropy"),
    ):
        press(key)
        assert found.input_value("#head") == chosen
    for key, chosen in (("ArrowDown", "1"), ("ArrowDown", "2"), ("ArrowDown", "2"), ("ArrowUp", "1")):
        press(key)
        assert found.input_value("#layer") == chosen
    press("ArrowRight")
    press("Shift+ArrowDown")
    assert found.text_content("#pair").startswith(f"{TARGET[0]} → ")
    press("Shift+ArrowRight")
    press("Shift+ArrowRight")
    pair, score = found.text_content("#pair").rsplit(": ", 1)
    assert pair == f"{TARGET[0]} → {SOURCE[1]}"
    assert float(score) == pytest.approx(SCORES["cross-attention"][1][0, 0, 1], abs=0.003)
    press("Enter")
    found.hover("#drawn", position={"x": 2, "y": 2})
    assert found.text_content("#pair") == f"{pair}: {score} (pinned)"
    press("Enter")
    assert found.text_content("#pair") == f"{pair}: {score}"
    press("ArrowRight")  # the same tokens in the next head
    assert float(found.text_content("#pair").rsplit(": ", 1)[1]) == pytest.approx(
        SCORES["cross-attention"][1][1, 0, 1], abs=0.003
    )
    press("Escape")
    assert found.text_content("#pair") == ""
    found.focus("#view")
    press("ArrowUp")
    assert found.input_value("#view") == "1"
    assert found.text_content("#shown").startswith("decoder: layer 1")


@WIDTHS
def test_sentences_and_size(opened, width):
    found = opened(width)
    before = found.evaluate("[at.cellWidth, frame.scrollWidth]")
    found.fill("#zoom", "4")
    after = found.evaluate("[at.cellWidth, frame.scrollWidth]")
    assert after[0] == pytest.approx(4 * before[0], rel=0.2)
    assert found.evaluate("document.documentElement.scrollWidth") <= width
    found.select_option("#sentence", "1")
    assert found.text_content("#shown") == "attention: block/mha, mean of the heads, as heat map"
    assert not found.is_visible("#only")
    assert found.locator("#head option").count() == 3 + 2
    assert found.evaluate("shown.rows") == ["x", "y", "z"]


@WIDTHS
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_serious_for_axe(opened, serious_violations, width, dark):
    found = opened(width, color_scheme="dark" if dark else "light", bypass_csp=True)
    _open_table(found)
    at = found.evaluate("at")
    found.click("#drawn", position={"x": 2, "y": at["top"] + 2})
    assert found.text_content("#pair").endswith(" (pinned)")
    assert serious_violations(found) == []
    found.check("input[value=arcs]")
    assert serious_violations(found) == []
    background = found.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 24, 29)") == dark


def test_dark_colours_begin_at_the_background(opened):
    found = opened(color_scheme="dark")
    values, highest = _shown(SCORES["cross-attention"][0], "mean")
    expected = np.array([colour(1 - value / highest) for value in values.flat])
    np.testing.assert_allclose(found.evaluate(PIXELS), expected, atol=6)


@WIDTHS
def test_the_table(opened, width):
    found = opened(width)
    found.select_option("#view", "1")
    _open_table(found)
    for head in ("0", "2"):
        found.select_option("#head", head)
        rows = found.evaluate(
            "[...document.querySelectorAll('#table tr')].map(r => [...r.cells].map(c => c.textContent))"
        )
        assert [row[0] for row in rows[1:]] == rows[0][1:] == TARGET
        assert rows[0][0] == "query \\ key"
        masked = np.array([[text == "masked" for text in row[1:]] for row in rows[1:]])
        np.testing.assert_array_equal(masked, np.triu(np.ones((5, 5), bool), 1))
        actual = [[0 if text == "masked" else float(text) for text in row[1:]] for row in rows[1:]]
        np.testing.assert_allclose(actual, SCORES["decoder"][0][int(head)], atol=1 / 255 / 2 + 0.0006)
        assert found.text_content("#table caption") == f"decoder: layer 1 of 3, head {int(head) + 1}"
    headers = "[...document.querySelectorAll('#table th:first-child')].map((cell) => cell.getBoundingClientRect().x)"
    before = found.evaluate(headers)
    found.evaluate("document.querySelector('#table .scroll').scrollLeft = 60")
    np.testing.assert_allclose(found.evaluate(headers), before, atol=1)
    found.select_option("#head", "entropy")
    assert found.text_content("#table th") == "query \\ head"
    assert found.text_content("#table caption").endswith("entropy of each head in nats")
    assert found.evaluate("document.documentElement.scrollWidth") <= width


def _saved(found, button):
    with found.expect_download() as download:
        found.click(button)
    return download.value.suggested_filename, download.value.path().read_bytes()


def _texts(svg):
    return [text.text for text in ElementTree.fromstring(svg.decode()).iter("{http://www.w3.org/2000/svg}text")]


@WIDTHS
def test_files(opened, width):
    found = opened(width)
    found.select_option("#head", "1")
    name, content = _saved(found, "#csv")
    assert name == "attention-cross-attention-layer-1-of-3-head-2.csv"
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig")))
    assert header[1:] == SOURCE
    assert [row[0] for row in rows] == ["the", "'=1+1", *TARGET[2:]]  # a spreadsheet computes nothing
    values = [[float(text) for text in row[1:]] for row in rows]
    np.testing.assert_allclose(values, SCORES["cross-attention"][0][1], atol=1 / 255 / 2 + 0.0006)
    found.select_option("#head", "entropy")
    header, *_ = csv.reader(io.StringIO(_saved(found, "#csv")[1].decode("utf-8-sig")))
    assert header == ["nats", "head 1", "head 2", "head 3"]
    found.select_option("#head", "1")
    for figure in ("map", "arcs"):
        found.check(f"input[value={figure}]")
        name, content = _saved(found, "#png")
        assert name.endswith(".png")
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", content[16:24])[0] >= 960  # two pixels for each of CSS
        name, content = _saved(found, "#svg")
        root = ElementTree.fromstring(content.decode())
        texts = _texts(content)
        assert {"the", "=1+1", 'a"b', "&amp;", "مرحبا", "שלום", "👩‍👩‍👧‍👦"} <= set(texts)
        assert any(text.startswith("</script>") for text in texts)
        assert texts[-1] == found.text_content("#shown")
        title = "<b>Attention</b> & more · " + " ".join(SOURCE) + " → " + " ".join(TARGET)
        assert "".join(texts).replace(" ", "").endswith((title + texts[-1]).replace(" ", ""))
        (start,) = [index for index, text in enumerate(texts) if text.startswith("<b>Attention</b>")]
        assert len(texts[start:]) > 2
        widths = found.evaluate("(texts) => texts.map((text) => measure(text, 13))", texts[start:])
        assert max(widths) + 4 <= float(root.get("width"))
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags == {"svg", "g", "rect", "text", *(["path"] if figure == "arcs" else [])}


@WIDTHS
def test_tokens_are_text(opened, width):
    found = opened(width)
    _open_table(found)
    assert found.evaluate("document.querySelectorAll('img, b').length") == 0
    assert found.evaluate("document.scripts.length") == 2
    assert found.text_content("h1") == "<b>Attention</b> & more"
    assert found.evaluate("[...document.querySelectorAll('#table thead th')].map(e => e.textContent)")[1:] == SOURCE
    assert found.locator("#sentence option").first.text_content() == " ".join(SOURCE) + " → " + " ".join(TARGET)


def test_the_policy_forbids_requests(file, browser):
    context = browser.new_context()
    found = context.new_page()
    found.goto(file.as_uri())
    blocked = found.evaluate(
        """() => new Promise((done) => {
          const blocked = [];
          document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
          fetch("https://example.org/").catch(() => {});
          const image = new Image();
          image.src = "https://example.org/";
          setTimeout(() => done(blocked.sort()), 200);
        })"""
    )
    assert blocked == ["connect-src", "img-src"]
    context.close()


def test_print(opened):
    found = opened(color_scheme="dark")
    found.emulate_media(media="print", color_scheme="dark")
    assert not found.is_visible("#controls")
    assert found.is_visible("#drawn")
    found.evaluate("dispatchEvent(new Event('beforeprint'))")
    values, highest = _shown(SCORES["cross-attention"][0], "mean")
    light = np.array([colour(value / highest) for value in values.flat])
    np.testing.assert_allclose(found.evaluate(PIXELS), light, atol=6)
    found.evaluate("dispatchEvent(new Event('afterprint'))")
    assert found.evaluate("drawn.width") == found.evaluate("Math.ceil(at.width)")
    assert found.pdf().startswith(b"%PDF")


def test_512_tokens(opened, tmp_path):
    scores = RANDOM.dirichlet(np.full(512, 0.02), size=(2, 512))
    path = tmp_path / "long.html"
    page({"block": scores}, path)
    found = opened(path=path)
    for figure in ("map", "arcs"):
        found.check(f"input[value={figure}]")
        found.select_option("#head", "1")
        assert found.evaluate(INK, "drawn") > 10000
        found.focus("#frame")
        found.keyboard.press("Shift+ArrowDown")
        assert found.text_content("#pair").startswith(f"0 → {scores[1, 0].argmax()}: ")
        found.keyboard.press("Escape")
    _open_table(found)
    best = found.evaluate("[...document.querySelectorAll('#table tbody tr')].map(row => row.cells[1].textContent)")
    levels = np.rint(255 * scores[1] / scores[1].max(axis=-1, keepdims=True))
    assert [int(text.split(" ")[0]) for text in best] == levels.argmax(axis=-1).tolist()


def test_a_notebook_cell(opened, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html>{page({'block': SCORES['encoder'][0]})._repr_html_()}", encoding="utf-8")
    found = opened(path=path)
    frame = found.frames[1]
    assert frame.text_content("#only") == "sentence 1"
    assert frame.text_content("#shown") == "attention: block, mean of the heads, as heat map"
    values, highest = _shown(SCORES["encoder"][0], "mean")
    expected = np.array([colour(value / highest) for value in values.flat])
    np.testing.assert_allclose(frame.evaluate(PIXELS), expected, atol=6)


@pytest.fixture(scope="module")
def stepped(tmp_path_factory):
    """A page with the steps of two layers, and their calculations."""
    layer, other = (kmha.MultiHeadAttention(2, 5, name=name) for name in ("mha", "other"))
    query, value = (RANDOM.normal(size=shape).astype("float32") for shape in ((1, 3, 8), (1, 13, 7)))
    scores, steps = {}, {}
    for each, mask in ((layer, np.arange(13) % 4 > np.arange(3)[:, None]), (other, None)):
        with capture(each, steps=True) as captured:
            each(query, value, attention_mask=None if mask is None else mask[None])
        scores |= captured
        steps |= captured.steps
    path = tmp_path_factory.mktemp("steps") / "steps.html"
    page({**scores, "third": scores["mha"]}, path, ["a", "b", "c"], steps=steps)
    return path, steps


def _tables(found):
    """The captions and the numbers of all tables of the step view, minus infinity as NaN."""
    tables = found.evaluate("""[...document.querySelectorAll('#steps table')].map((table) => [
      table.caption.textContent,
      [...table.tBodies[0].rows].map((row) => [...row.cells].slice(1).map((cell) => cell.textContent)),
    ])""")
    number = lambda text: float(text.replace("−∞", "nan").replace("−", "-"))  # noqa: E731
    return {title: np.array([[number(text) for text in row] for row in rows]) for title, rows in tables}


@WIDTHS
def test_steps(opened, stepped, width):
    path, calculations = stepped
    found = opened(width, path)
    found.check("input[value=steps]")
    assert found.input_value("#head") == "0"
    assert not found.is_visible("#picture")
    disabled = "['zoom', 'png', 'svg', 'csv'].map((id) => document.getElementById(id).disabled)"
    assert found.evaluate(disabled) == [True] * 4
    assert found.get_attribute("#csv", "title") == "Steps cannot be saved: choose heat map or arcs first."
    assert found.evaluate("[...head.options].map((option) => option.disabled)") == [True] * 3 + [False] * 2
    assert found.is_visible("#note")
    for layer, name in enumerate(("mha", "other")):
        found.select_option("#layer", str(layer))
        calculation = calculations[name]
        for head in (0, 1):
            found.select_option("#head", str(head))
            mask = np.ones((3, 13), bool) if calculation.mask is None else calculation.mask[0, head]
            logits = calculation.logits[0, head]
            masked = {"masked logits (T, S) = (3, 13)": np.where(mask, logits, np.nan)[:, :12]}
            both = {"logits (T, S) = (3, 13)": logits[:, :12], "mask (T, S) = (3, 13)": mask[:, :12], **masked}
            scores = {"scores (softmax) (T, S) = (3, 13)": calculation.scores[0, head, :, :12]}
            mixed = {"mixed values (T, O) = (3, 5)": calculation.mixed[0, :, head]}
            heads = {
                f"{letter} ({positions}, O) = ({size}, 5)": calculation.projected(full)[0, :12, head]
                for letter, positions, size, full in (
                    ("Q", "T", 3, "query"),
                    ("K", "S", 13, "key"),
                    ("V", "S", 13, "value"),
                )
            }
            kernels = {
                title: array
                for full, positions, size, width_ in (("query", "T", 3, 8), ("key", "S", 13, 7), ("value", "S", 13, 7))
                for title, array in {
                    f"{full} input ({positions}, I) = ({size}, {width_})": calculation.inputs[full][0, :12, :6],
                    f"{full} kernel (I, O) = ({width_}, 5)": calculation.kernels[full][head, :6],
                    f"+ {full} bias (1, O) = (1, 5)": calculation.biases[full][head, None],
                }.items()
            }
            merged = {
                "output kernel of the head (O, E) = (5, 8)": calculation.kernels["output"][head, :, :6],
                "part of the head (T, E) = (3, 8)": calculation.parts[0, head, :, :6],
                "output: all parts and the bias (T, E) = (3, 8)": calculation.output[0, :, :6],
            }
            q, k, v = heads.items()
            expected = {
                "1 Project": kernels | heads,
                "2 Logits": dict([q, k]) | {"logits (T, S) = (3, 13)": logits[:, :12]},
                "3 Mask": masked if calculation.mask is None else both,
                "4 Scores (softmax)": masked | scores,
                "5 Mix": scores | dict([v]) | mixed,
                "6 Merge": mixed | merged,
            }
            for step, tables in expected.items():
                found.click(f"text={step}")
                actual = {title.split("the first")[0]: numbers for title, numbers in _tables(found).items()}
                assert actual.keys() == tables.keys()
                for title, array in tables.items():
                    np.testing.assert_allclose(actual[title], array, atol=0.0006, err_msg=f"{name} {head} {title}")
                assert found.locator("#steps nav [aria-current=step]").text_content() == step
                assert found.evaluate("document.documentElement.scrollWidth") <= width
    found.select_option("#layer", "2")
    assert not found.is_visible("#steps")
    assert not found.is_visible("input[value=steps]")
    assert not found.is_visible("#note")
    assert found.evaluate(disabled) == [False] * 4
    assert found.text_content("#shown").endswith("as heat map")


def test_what_the_steps_leave_out_and_who_attends(opened, stepped):
    found = opened(path=stepped[0])
    found.check("input[value=steps]")
    found.focus("#steps nav button")
    found.keyboard.press("Tab")
    found.keyboard.press("Enter")
    assert found.text_content("#steps h2") == "Step 2 of 6: logits"
    assert found.evaluate("document.activeElement.textContent") == "2 Logits"
    assert "the first 3 × 12; 3 numbers left out" in found.text_content("#steps")
    assert "Along T: a query. Along S: a key." in found.text_content("#steps")
    rows = found.evaluate(
        "[...document.querySelectorAll('#steps table')[2].rows].map((row) => row.cells[0].textContent)"
    )
    assert rows == ["", "a", "b", "c"]


def test_the_steps_say_only_what_is_true(opened, tmp_path):
    """The layer has no biases, some values are not finite, and a mask hides all keys from a query."""
    layer = kmha.MultiHeadAttention(2, 3, use_bias=False, name="mha")
    x, value = RANDOM.normal(size=(1, 2, 4)), RANDOM.normal(size=(1, 5, 4))
    value[0, :3, 0] = [np.inf, -np.inf, np.nan]
    with capture(layer, steps=True) as captured:
        layer(x, value, RANDOM.normal(size=(1, 5, 4)), attention_mask=np.array([[[0] * 5, [1, 1, 0, 0, 1]]]))
    path = tmp_path / "true.html"
    page(captured, path)
    found = opened(path=path)
    found.check("input[value=steps]")
    text = found.text_content("#steps p")
    assert text.startswith("Query, key and value are different inputs. Each is multiplied by a kernel of its own. ")
    assert "bias" not in found.text_content("#steps")
    table = "[...[...document.querySelectorAll('#steps table')].find((one) => one.caption.textContent.startsWith("
    first = found.evaluate(f"{table}'value input')).rows].map((row) => row.cells[1].textContent)")
    assert first[1:4] == ["∞", "−∞", "NaN"]
    found.click("text=4 Scores")
    assert "add up to 1, or to 0 if the mask hides all keys" in found.text_content("#steps p")
    assert not np.any(_tables(found)["scores (softmax) (T, S) = (2, 5)"][0])
    found.click("text=6 Merge")
    assert "bias" not in found.text_content("#steps")


@WIDTHS
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_serious_in_the_steps_for_axe(opened, stepped, serious_violations, width, dark):
    found = opened(width, stepped[0], color_scheme="dark" if dark else "light", bypass_csp=True)
    found.check("input[value=steps]")
    for step in ("1 Project", "3 Mask", "6 Merge"):
        found.click(f"text={step}")
        assert serious_violations(found) == []


def test_the_page_has_its_data_once(file):
    text = file.read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [len(view["layers"]) for view in data["moments"][0]["sentences"][0]["views"]] == list(VIEWS.values())
