"""The pictures as they are, compared with those in `images/`.

After a change that is meant, renew them, and look at them: RENEW_IMAGES=1 pytest -n0 tests/show/test_images.py

Texts are hidden, and measured as if all letters had one width, because fonts differ between versions of FreeType.
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from matplotlib.text import Text

import kmha
from kmha import show
from kmha.core.positions import sinusoidal
from kmha.show import drawing

IMAGES = Path(__file__).with_name("images")
DPI = 35
DIFFERENT = 0.2  # smallest difference of a colour that counts, of its range
SHARE = 0.002  # share of the pixels that may be different; between matplotlib 3.9 and 3.11 it is 0.0001
SOURCE = ["Zwei", "Männer", "stehen", "am", "Herd", "."]
TARGET = ["Two", "men", "are", "at", "the", "stove", "."]


def _scores(*shape):
    """Scores in which each query attends to the key of its own position most."""
    rows, columns = np.arange(shape[-2])[:, None] / shape[-2], np.arange(shape[-1]) / shape[-1]
    logits = -5 * shape[-2] * (rows - columns) ** 2 * shape[-1] / 6 + np.cos(np.arange(np.prod(shape))).reshape(shape)
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def _worked(**options):
    """A worked example of a layer whose weights do not depend on a generator of random numbers."""
    layer = kmha.MultiHeadAttention(2, 4, name="block")
    query, value = np.cos(np.arange(15.0)).reshape(3, 5), np.cos(2 * np.arange(24.0)).reshape(4, 6)
    layer.build(query[None].shape, value[None].shape)
    layer.set_weights(
        [0.7 * np.cos(3 * np.arange(weight.size)).reshape(weight.shape) for weight in layer.get_weights()]
    )
    return show.steps(layer, query, value, **options)


def _model():
    names = "encoder_layer1_self_att", "decoder_layer1_block1_self_att", "decoder_layer1_block2_decenc_att"
    shapes = (1, 2, 6, 6), (1, 2, 7, 7), (1, 2, 7, 6)
    return {name: _scores(*shape) for name, shape in zip(names, shapes, strict=True)}


PICTURES = {
    "heatmap": lambda: show.heatmap(_scores(7, 6), TARGET, SOURCE, title="one head"),
    "heatmap of 60": lambda: show.heatmap(_scores(60, 50)),
    "heads": lambda: show.heads(_scores(4, 7, 6), TARGET, SOURCE),
    "layers": lambda: show.layers(_model(), TARGET, SOURCE),
    "alignment": lambda: show.alignment(_scores(7, 6), TARGET, SOURCE, title="one head"),
    "alignment of 20": lambda: show.alignment(_scores(20, 17).round(1)),
    "steps": lambda: _worked(rows=["a", "dog", "."], head=1),
    "steps with a mask": lambda: _worked(attention_mask=np.arange(4)[None] < 3, use_causal_mask=True),
    "positions": lambda: show.positions(sinusoidal(20, 16)),
    "scaling": lambda: show.scaling((4, 16, 64)),
}


def _pixels(png):
    return image.imread(io.BytesIO(png))[..., :3]


def _share_of_different_pixels(some, others):
    """The share of pixels of whose colour the other image has none within a pixel's distance, or 1 if the sizes differ.

    Versions of matplotlib differ by a pixel in where an edge is.
    """
    if some.shape != others.shape:
        return 1.0

    def differences(one, other):
        near = [np.roll(other, (down, right), (0, 1)) for down in (-1, 0, 1) for right in (-1, 0, 1)]
        return np.min([np.abs(one - each).max(-1) for each in near], axis=0)

    return float((np.maximum(differences(some, others), differences(others, some)) > DIFFERENT).mean())


@pytest.fixture
def drawn(monkeypatch):
    """A function that draws the picture of a name as PNG."""
    monkeypatch.setattr(drawing, "_measure", lambda families: lambda text, points: 0.6 * points * len(text) / 72)

    def draw(name):
        figure = PICTURES[name]()
        for artist in (*figure.findobj(Text), *figure.legends):  # a legend is as large as its texts
            artist.set_visible(False)
        return drawing.encoded(figure, "png", DPI)

    return draw


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_the_stored_one(name, drawn):
    path, png = IMAGES / f"{name.replace(' ', '_')}.png", drawn(name)
    if os.environ.get("RENEW_IMAGES"):
        path.write_bytes(png)
    assert _share_of_different_pixels(_pixels(png), _pixels(path.read_bytes())) <= SHARE


def test_no_image_is_left_over_or_large():
    assert {path.name for path in IMAGES.iterdir()} == {f"{name.replace(' ', '_')}.png" for name in PICTURES}
    assert max(path.stat().st_size for path in IMAGES.iterdir()) < 20_000


CHANGES = {
    "the other order of rows": ("heatmap", lambda: show.heatmap(_scores(7, 6)[::-1], TARGET, SOURCE, title="one head")),
    "other colours": ("heads", lambda: show.heads(_scores(4, 7, 6), TARGET, SOURCE, colours="Reds")),
    "another width of lines": ("alignment", lambda: show.alignment(_scores(7, 6), TARGET, SOURCE, title="-", vmax=1.0)),
    "one token less": ("alignment", lambda: show.alignment(_scores(7, 6), TARGET[:-1], SOURCE, title="one head")),
    "another head": ("steps", lambda: _worked(rows=["a", "dog", "."], head=0)),
    "another mask": ("steps with a mask", lambda: _worked(attention_mask=np.arange(4)[None] < 2, use_causal_mask=True)),
    "another encoding": ("positions", lambda: show.positions(np.roll(sinusoidal(20, 16), 1, axis=1))),
    "a line less": ("scaling", lambda: show.scaling((4, 16, 64), (True,))),
    "another end of the scale": ("layers", lambda: show.layers(_model(), TARGET, SOURCE, vmax=1.0)),
    "rows that moved by one": ("heatmap of 60", lambda: show.heatmap(np.roll(_scores(60, 50), 1, axis=0))),
    "another head size": ("scaling", lambda: show.scaling((4, 16, 32))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_picture_is_noticed(change, drawn, monkeypatch):
    name, make = CHANGES[change]
    monkeypatch.setitem(PICTURES, name, make)
    stored = (IMAGES / f"{name.replace(' ', '_')}.png").read_bytes()
    assert _share_of_different_pixels(_pixels(drawn(name)), _pixels(stored)) > SHARE
