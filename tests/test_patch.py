import importlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import kmha
from kmha.layers.builtin import BUILTIN
from kmha.verify.tolerance import is_close

MultiHeadAttention = keras.layers.MultiHeadAttention
HOMES = [
    __name__,
    "keras.layers",
    "keras.src.layers",
    "keras.src.layers.attention.multi_head_attention",
    "keras._tf_keras.keras.layers",
]
OURS = kmha.MultiHeadAttention
T, I, H, O = 5, 6, 3, 4


def _homes():
    return {name: importlib.import_module(name).MultiHeadAttention for name in HOMES}


@pytest.mark.parametrize("home", HOMES)
def test_wherever_people_import_it_from(home):
    with kmha.patch_keras() as builtin:
        assert getattr(importlib.import_module(home), "MultiHeadAttention") is OURS  # noqa: B009
        assert builtin is BUILTIN
    assert getattr(importlib.import_module(home), "MultiHeadAttention") is BUILTIN  # noqa: B009


@pytest.mark.tensorflow
def test_through_tensorflow():
    import tensorflow as tf

    with kmha.patch_keras():
        assert tf.keras.layers.MultiHeadAttention is OURS
    assert tf.keras.layers.MultiHeadAttention is BUILTIN


def test_nested_and_after_an_exception():
    with kmha.patch_keras():
        with pytest.raises(KeyError), kmha.patch_keras():
            raise KeyError
        assert set(_homes().values()) == {OURS}
    assert set(_homes().values()) == {BUILTIN}
    with pytest.raises(KeyError), kmha.patch_keras():
        raise KeyError
    assert set(_homes().values()) == {BUILTIN}


def test_as_a_decorator():
    @kmha.patch_keras()
    def make():
        return keras.layers.MultiHeadAttention(H, O)

    assert type(make()) is type(make()) is OURS
    assert kmha.MultiHeadAttention is OURS


def test_what_somebody_else_put_there_meanwhile_stays(monkeypatch):
    with kmha.patch_keras():
        monkeypatch.setattr(keras.layers, "MultiHeadAttention", None)
    assert keras.layers.MultiHeadAttention is None
    monkeypatch.undo()
    keras.layers.MultiHeadAttention = BUILTIN


def _model():
    keras.utils.set_random_seed(4)
    x = keras.Input((T, I))
    return keras.Model(x, keras.layers.MultiHeadAttention(H, O, name="attention")(x, x))


def test_a_model_is_the_same_and_loads_without_the_patch(tmp_path):
    x = np.random.default_rng(0).normal(size=(2, T, I)).astype("float32")
    theirs = _model()
    with kmha.patch_keras():
        ours = _model()
        theirs.save(tmp_path / "theirs.keras")
        assert type(keras.models.load_model(tmp_path / "theirs.keras").get_layer("attention")) is BUILTIN
    assert type(ours.get_layer("attention")) is OURS
    assert is_close(ours.predict(x, verbose=0), theirs.predict(x, verbose=0), "float32")
    ours.save(tmp_path / "ours.keras")
    loaded = keras.models.load_model(tmp_path / "ours.keras")
    assert type(loaded.get_layer("attention")) is OURS
    assert is_close(loaded.predict(x, verbose=0), ours.predict(x, verbose=0), "float32")


SCRIPT = """
import sys
from keras.layers import MultiHeadAttention
from beside import MultiHeadAttention as other
import keras
same = other is MultiHeadAttention is keras.layers.MultiHeadAttention
print(__name__, sys.argv[1:], MultiHeadAttention.__module__, same)
if "fail" in sys.argv:
    raise SystemExit(7)
"""


def _run(*arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "kmha.patch", *arguments], cwd=folder, capture_output=True, text=True, timeout=200
    )


@pytest.mark.slow
def test_a_script_or_module_that_cannot_be_edited(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "script.py").write_text(SCRIPT)
    (tmp_path / "inner" / "beside.py").write_text("from keras.src.layers import MultiHeadAttention")
    expected = "__main__ ['fail', '-x'] kmha.layers.multi_head_attention True\n"
    for folder, arguments in ((tmp_path, ("inner/script.py",)), (tmp_path / "inner", ("-m", "script"))):
        done = _run(*arguments, "fail", "-x", folder=folder)
        assert (done.stdout, done.returncode) == (expected, 7), done.stderr


def test_how_it_is_used(tmp_path):
    done = _run(folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "python -m kmha.patch SCRIPT" in done.stderr
    assert "no file 'there.py'" in _run("there.py", folder=tmp_path).stderr
