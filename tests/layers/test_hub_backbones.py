"""Every backbone of the installed KerasHub gives the same numbers with kmha's layer, and trains the same."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from kmha.verify.tolerance import difference, relative

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow, pytest.mark.timeout(1800)]  # two minutes on two idle cores

WHICH = ("builtin", "kmha")
OUTPUT, GRADIENT = relative("float32"), 5 * relative("float32")  # gradients of up to 250 weights, one after another


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the folder and the report of each of the two processes, which run at the same time."""
    pytest.importorskip("keras_hub")
    script = pathlib.Path(__file__).with_name("hub_backbones.py")
    folders = {which: tmp_path_factory.mktemp(which) for which in WHICH}
    command = [sys.executable, "-W", "ignore", script]
    started = [subprocess.Popen([*command, *pair], stderr=subprocess.PIPE, text=True) for pair in folders.items()]
    for process in started:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    return {which: (folder, json.loads((folder / "backbones.json").read_text())) for which, folder in folders.items()}


def test_each_backbone_is_built_or_has_a_reason(runs):
    from keras_hub import models

    (_, ours), (_, theirs) = (runs[which] for which in WHICH)
    assert ours == theirs
    assert set(theirs) == {name for name in dir(models) if name.endswith("Backbone")}
    unclear = {name: found for name, found in theirs.items() if "raised" in str(found) or "names" in str(found)}
    assert unclear == {}
    assert sum(found not in (0, "") and not isinstance(found, str) for found in theirs.values()) >= 24


def test_each_backbone_with_attention_gives_the_same_numbers(runs):
    """Outputs, loss, and gradients. Those of key biases are 0 but for rounding, so the model's largest counts too."""
    (ours, _), (theirs, _) = (runs[which] for which in reversed(WHICH))
    apart = {}
    for path in sorted(theirs.glob("*.npz")):
        found, expected = ([*np.load(folder / path.name).values()] for folder in (ours, theirs))
        largest = max(np.abs(array).max() for array in expected)
        for n, (one, other) in enumerate(zip(found, expected, strict=True)):
            off = difference(one, other, max(np.abs(other).max(), 1e-3 * largest))[1]
            limit = OUTPUT if n == 0 else GRADIENT
            if off > limit:
                apart[path.stem, n] = off
    assert apart == {}
