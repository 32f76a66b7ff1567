"""Layers that take images: their parts are diagnosed, or kmha says what to diagnose."""

import pytest

from kmha.verify import diagnose

torch = pytest.importorskip("torch")
nn = torch.nn


class Mix(nn.Module):
    scaled = True

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        logits = q @ k.mT * (q.shape[-1] ** -0.5 if self.scaled else 1)
        return self.out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class UnscaledMix(Mix):
    scaled = False


class Pictures(nn.Module):
    mix = Mix

    def __init__(self, width=16, heads=2, patch=4):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.first, self.mixed = nn.Parameter(torch.zeros(1, 1, width)), self.mix(width, heads)

    def forward(self, picture):
        x = self.cut(picture).flatten(2).mT
        return self.mixed(torch.cat([self.first.expand(len(x), -1, -1), x], 1))[:, 0]


class WrongPictures(Pictures):
    mix = UnscaledMix


class Averages(nn.Module):
    def __init__(self, width=16, patch=4):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)

    def forward(self, img):
        rows, columns = img.shape[2:]
        return self.cut(img).mean((2, 3)) + rows + columns


def test_a_model_of_images_is_diagnosed_by_its_parts():
    found = diagnose(Pictures)
    assert (found.verdict, found.name) == ("right", "Mix in Pictures")
    assert "Pictures takes images, so that kmha diagnosed its parts: Mix is right." in " ".join(found.further)
    assert diagnose(WrongPictures).ids == ("scale-missing",)


class Classifier(Pictures):
    """Every size must be given, and no other image runs."""

    def __init__(self, *, image_size, patch_size, num_classes, dim, heads):
        super().__init__(dim, heads, patch_size)
        self.places = nn.Parameter(torch.zeros((image_size // patch_size) ** 2, dim))
        self.classes = nn.Linear(dim, num_classes)

    def forward(self, img):
        return self.classes(self.mixed(self.cut(img).flatten(2).mT + self.places).mean(1))


class WrongClassifier(Classifier):
    mix = UnscaledMix


def test_sizes_of_images_and_patches_are_made_up():
    assert diagnose(Classifier).right
    assert diagnose(WrongClassifier).ids == ("scale-missing",)


def test_a_layer_of_images_without_parts_is_refused_in_words():
    with pytest.raises(ValueError, match=r"takes images\. Diagnose a layer inside of it"):
        diagnose(Averages)


class Lines(nn.Module):
    """A layer of vectors that runs with images, too, and whose weights kmha does not know."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.first, self.second = nn.Linear(width, 5), nn.Linear(5, width)

    def forward(self, x):
        return self.second(self.first(x).softmax(-1))


def test_a_layer_that_runs_with_vectors_too_takes_no_images():
    with pytest.raises(ValueError, match=r"^(?!.*takes images)"):
        diagnose(Lines)
