"""Layers that cut images into patches: what their calls show is enough, without a reference."""

import re

import pytest

from kmha.verify import diagnose

torch = pytest.importorskip("torch")
nn = torch.nn


class Convolution(nn.Module):
    def __init__(self, img_size, patch_size, in_chans, embed_dim):
        super().__init__()
        self.cut = nn.Conv2d(in_chans, embed_dim, patch_size, stride=patch_size)

    def forward(self, x):
        return self.cut(x).flatten(2).transpose(1, 2)


class ConvolutionReshaped(Convolution):
    def forward(self, x):
        maps = self.cut(x)
        return maps.reshape(len(x), maps.shape[2] * maps.shape[3], maps.shape[1])


class Unfolded(nn.Module):
    """With a token for the class, and trained positions."""

    order: tuple[int, ...] = (0, 2, 4, 3, 5, 1)

    def __init__(self, image_size=224, patch_size=16, channels=3, dim=64):
        super().__init__()
        self.patch, number = patch_size, (image_size // patch_size) ** 2
        self.linear = nn.Linear(channels * patch_size**2, dim)
        self.first = nn.Parameter(torch.randn(1, 1, dim))
        self.places = nn.Parameter(torch.randn(1, number + 1, dim))

    def forward(self, pixels):
        (batch, channels, height, width), size = pixels.shape, self.patch
        cut = pixels.reshape(batch, channels, height // size, size, width // size, size).permute(self.order)
        tokens = self.linear(cut.reshape(batch, -1, channels * size**2))
        return torch.cat([self.first.expand(batch, -1, -1), tokens], dim=1) + self.places


class ColumnsFirst(Unfolded):
    order = (0, 4, 2, 3, 5, 1)


class NotMoved(Unfolded):
    order = (0, 1, 2, 3, 4, 5)


class ChannelsApart(Unfolded):
    """The channels come before the patches, which mixes patches unless there is one channel."""

    order = (0, 1, 2, 4, 3, 5)


class Overlapping(nn.Module):
    """A stem of convolutions, whose tokens read more than a patch."""

    def __init__(self, in_channels=3, embed_dim=16):
        super().__init__()
        self.first = nn.Conv2d(in_channels, embed_dim, 3, stride=2, padding=1)
        self.patches = nn.Conv2d(embed_dim, embed_dim, 3, stride=2, padding=1)

    def forward(self, image):
        return self.patches(self.first(image).relu()).flatten(2).mT


class TokensOfChannels(nn.Module):
    """A token for each patch of each channel, as in models of microscopy."""

    def __init__(self, patch_size=4, embed_dim=16):
        super().__init__()
        self.cut = nn.Conv2d(1, embed_dim, patch_size, stride=patch_size)

    def forward(self, image):
        batch = len(image)
        return self.cut(image.flatten(0, 1)[:, None]).flatten(2).mT.reshape(batch, -1, self.cut.out_channels)


class Rows(nn.Module):
    """Each row of an image is a token, and no argument is a size of patches."""

    def __init__(self, width=16, dim=8):
        super().__init__()
        self.linear = nn.Linear(3 * width, dim)

    def forward(self, image):
        return self.linear(image.permute(0, 2, 3, 1).flatten(2))


@pytest.mark.parametrize(
    ("candidate", "order"),
    [
        (Convolution, "rows first"),
        (Unfolded, "rows first"),
        (ColumnsFirst, "in another order than rows first"),
        (Convolution(32, 8, 3, 12), "8 × 8 pixels, rows first"),
        (Unfolded(32, 8, 1, 12), "8 × 8 pixels, rows first"),
        (ChannelsApart(32, 8, 1, 12), "rows first"),
    ],
)
def test_right_patches(candidate, order):
    found = diagnose(candidate)
    assert (found.verdict, found.ids) == ("right", ())
    assert order in str(found)
    assert "passed" not in str(found)


@pytest.mark.parametrize(
    ("candidate", "because"),
    [
        (ConvolutionReshaped, "the features of a token of it read different patches"),
        (ConvolutionReshaped(32, 8, 3, 12), "the features of a token of it read different patches"),
        (NotMoved, "a token of it reads parts of several patches"),
        (ChannelsApart, "a token of it reads parts of several patches"),
        (NotMoved(32, 8, 3, 12), "a token of it reads parts of several patches"),
    ],
)
def test_patches_that_are_mixed(candidate, because):
    found = diagnose(candidate)
    assert (found.verdict, found.ids) == ("known", ("patches-mixed",))
    assert because in re.sub(r"\s+", " ", str(found))


@pytest.mark.parametrize("candidate", [Overlapping, TokensOfChannels, Rows])
def test_other_designs_are_not_accused(candidate):
    try:
        found = diagnose(candidate)
    except ValueError:
        return
    assert not found.accused


class Whole(nn.Module):
    cut = Unfolded

    def __init__(self, image_size=16, patch_size=4, dim=12, heads=3):
        super().__init__()
        self.tokens = self.cut(image_size, patch_size, 3, dim)
        self.layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, batch_first=True)

    def forward(self, images):
        return self.layer(self.tokens(images))[:, 0]


class WholeMixed(Whole):
    cut = NotMoved


def test_the_patches_of_a_whole_model():
    assert diagnose(Whole).right
    found = diagnose(WholeMixed)
    assert (found.name, found.ids) == ("NotMoved in WholeMixed", ("patches-mixed",))


def test_patches_of_keras():
    import keras

    class Cut(keras.layers.Layer):
        moves = True

        def __init__(self, patch, dim):
            super().__init__()
            self.patch, self.linear = patch, keras.layers.Dense(dim)

        def call(self, image):
            (_, height, width, channels), size = image.shape, self.patch
            cut = keras.ops.reshape(image, (-1, height // size, size, width // size, size, channels))
            cut = keras.ops.transpose(cut, (0, 1, 3, 2, 4, 5)) if self.moves else cut
            return self.linear(keras.ops.reshape(cut, (-1, height * width // size**2, size * size * channels)))

    class Uncut(Cut):
        moves = False

    assert diagnose(Cut).right
    assert diagnose(Uncut).ids == ("patches-mixed",)
