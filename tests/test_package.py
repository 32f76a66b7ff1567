import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kmha

pytestmark = pytest.mark.sampled(4)


def _python(*code):
    return subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True).stdout


def test_import_kmha_imports_no_keras():
    """So that it adds nothing to `import keras`, and little to nothing."""
    assert (
        _python(
            "import sys", "import kmha", "print(sorted({'keras', 'tensorflow', 'numpy', 'rich'} & set(sys.modules)))"
        )
        == "[]\n"
    )


@pytest.mark.tensorflow
def test_import_costs_at_most_a_twentieth_of_keras():
    """By the number of modules, since a time would be a matter of luck: those that our import adds to Keras'."""
    added, all_of_keras = _python(
        "import sys",
        "import keras",
        "before = len(sys.modules)",
        "import kmha",
        "print(len(sys.modules) - before, before)",
    ).split()
    assert int(added) <= int(all_of_keras) / 20


@pytest.mark.slow
@pytest.mark.parametrize("order", [("import kmha", "import keras"), ("import keras", "import kmha")])
def test_the_layers_are_registered_whichever_comes_first(order):
    assert _python(*order, "print('kmha>MultiHeadAttention' in keras.saving.get_custom_objects())") == "True\n"


@pytest.mark.parametrize(
    "module",
    ["kmha.core.projection", "kmha.core.attention", "kmha.layers.projections", "kmha.verify.comparing.running"],
)
def test_any_module_can_be_imported_first(module):
    assert (
        _python(f"import {module}", "import kmha", "print(kmha.MultiHeadAttention.__name__)") == "MultiHeadAttention\n"
    )


@pytest.mark.parametrize("room", ["kmha", "kmha.course", "kmha.interchange", "kmha.verify"])
def test_dir_lists_the_public_names_alone(room):
    """Where names are imported when they are first used, `dir` knows them before, and nothing else after."""
    code = "import importlib", f"module = importlib.import_module({room!r})", "names = dir(module)"
    code += ("for name in module.__all__: assert getattr(module, name) is not None, name",)
    code += "assert dir(module) == names, dir(module)", "assert sorted(module.__all__) == names, names"
    _python(*code)


@pytest.mark.parametrize("room", ["kmha", "kmha.course", "kmha.interchange", "kmha.verify"])
def test_a_name_that_is_not_there(room):
    module = importlib.import_module(room)
    with pytest.raises(
        AttributeError, match=f"module '{room}' has no attribute 'multihead'. It has: .*{module.__all__[-1]}"
    ):
        module.multihead  # noqa: B018


@pytest.mark.slow
def test_tools_that_read_modules_see_every_public_name(monkeypatch):
    monkeypatch.setenv("EAGER_IMPORT", "1")
    _python(
        "import importlib",
        f"for room in map(importlib.import_module, {WITH_PUBLIC_NAMES!r}):",
        "    missing = set(room.__all__) - set(vars(room))",
        "    assert not missing, (room, missing)",
    )


@pytest.mark.slow
def test_the_rooms_are_there_after_a_bare_import():
    uses = (
        "kmha.interchange.convert",
        "kmha.layers.Encoder",
        "kmha.show.heatmap",
        "kmha.translation",
        "kmha.verify.probe",
    )
    for use in uses:
        _python("import kmha", use)


def test_it_is_a_command_as_a_module():
    done = subprocess.run([sys.executable, "-m", "kmha", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"python -m kmha, version {kmha.__version__}\n"


USER_CODE = """
import numpy as np

import kmha
from kmha.interchange import canonical, recognize
from kmha.layers import EncoderLayer, create_padding_mask
from kmha.layers.addons import MultiHeadAttention as Addons


class Mine(kmha.MultiHeadAttention):
    def doubled(self) -> int:
        return 2 * int(self.num_heads)


layer = kmha.MultiHeadAttention(num_heads=4, key_dim=8, dropout=0.1)
x = np.ones((2, 3, 16), "float32")
print(layer(x, x, use_causal_mask=True), Mine(2, 3).doubled(), Addons(4, 2), EncoderLayer(8, 2, 16))
print(layer.explain((1, 8, 16)).path, kmha.verify.compare(kmha.MultiHeadAttention, cases=3).agrees)
print(kmha.convert_model, recognize({}), canonical.read(layer), create_padding_mask(x), kmha.show.heads)
with kmha.patch_keras() as builtin:
    print(builtin.__name__)
"""
WITH_PUBLIC_NAMES = tuple(
    f"kmha{room}" for room in ("", ".course", ".distribution", ".interchange", ".layers", ".show", ".verify")
)


@pytest.mark.slow
def test_a_strict_type_checker_accepts_user_code_and_no_name_that_is_not_there(tmp_path):
    assert (Path(kmha.__file__).parent / "py.typed").exists()
    (tmp_path / "user.py").write_text(USER_CODE)
    wrong = [line for name in WITH_PUBLIC_NAMES for line in (f"import {name}", f"{name}.nothing")]
    (tmp_path / "wrong.py").write_text("\n".join(wrong))
    options = "--strict", "--follow-imports=silent", "--config-file=", "--no-error-summary", "--cache-dir=cache"
    paths = {**os.environ, "MYPYPATH": str(Path(kmha.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", *options, "user.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True, text=True, timeout=300)
    found = [line.split(": error: ") for line in done.stdout.splitlines()]
    assert [where for where, _ in found] == [f"wrong.py:{2 * n}" for n in range(1, len(WITH_PUBLIC_NAMES) + 1)]
    assert {what for _, what in found} == {'Module has no attribute "nothing"  [attr-defined]'}
