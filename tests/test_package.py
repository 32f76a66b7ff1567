import importlib
import subprocess
import sys

import pytest


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
