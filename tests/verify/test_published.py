"""`diagnose` names the mistakes of published attention code, and does not accuse code that was right after all.

The candidates in `published/` are rewritten, each with its thread. The decisive lines follow the thread, and the rest
is what such code usually looks like.
"""

import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

from kmha.verify import diagnose
from kmha.verify.mistakes import BANK

FOLDER = Path(__file__).parent / "published"
NEEDS = {
    **dict.fromkeys(("torch_heads", "torch_scores", "torch_blocks", "right_torch"), "torch"),
    "jax_functions": "jax",
}

# All ids of the simplest explanation. Others that explain it equally well are not tested.
WRONG = {
    "torch_heads": {
        "FuxiAttention": "heads-reshaped-and-merged",
        "TextClassifierAttention": "heads-reshaped-and-merged",
        "CopyTaskAttention": "merge-not-transposed",
        "VideoAttention": "heads-split-input-one-kernel scale-all-heads",
        "KeyForValueAttention": "kernels-key-for-value",
        "ViewedAttention": "heads-reshaped",
        "ExchangedAttention": "merge-batch-exchanged",
        "EinsumAttention": "kernels-transposed",
    },
    "torch_scores": {
        "PatchAttention": "scale-after-softmax",
        "VisionAttention": "scale-features",
        "CombinedAttention": "scale-multiplied",
        "DiffusionAttention": "softmax-over-queries",
        "FirstAxisAttention": "softmax-over-heads-and-batch",
        "TinyFillAttention": "mask-zeroes-logits",
        # Its fill of -10,000 leaks where logits are large.
        "DecoderAttention": "mask-fills-10000 padding-on-queries",
        "TiledMaskAttention": "mask-tiled",
        "ThrownAwayAttention": "mask-missing",
        "masked_after": "mask-after-softmax",
        "infinite_after": "mask-infinite-after-softmax",
        "segmentation_scores": "softmax-over-heads-and-keys",
    },
    "keras_layers": {
        "HeadsFirstAttention": "mask-repeated scale-all-heads",
        "LookAheadAttention": "causal-inverted",
        "CaptioningAttention": "padding-ignored",
    },
    "keras_blocks": {
        "PredictionLayer": "residual-feed-forward-from-input",
        "MeterLayer": "feed-forward-activation-after-second",
    },
    "torch_blocks": {
        "SharedNormLayer": "norm-shared-last-1",
        "LatticeLayer": "residual-output-doubled",
        "EvenEmbedding": "positions-exponent-doubled-per-feature",
        "ThousandEmbedding": "positions-base-1000 positions-exponent-per-feature",
        "ColumnEmbedding": "positions-exponent-doubled-per-feature",
    },
    "numpy_functions": {
        "key_for_value": "mix-key",
        "tiny_language_model": "mask-drowns-logits",
        "divided_by_dimension": "scale-without-root",
        "temporal_fusion": "mask-zeroes-logits",
        "renormalised": "mask-after-softmax-renormalised",
        "bert_of_graph": "scale-missing softmax-missing",
    },
    "jax_functions": {
        "tiny_transformer": "scale-missing",
        "zeros_hidden": "mask-forbids-zeros",
        "boolean_added": "mask-added-ones",
    },
}
# What True means in these masks.
HIDES = {"FirstAxisAttention", "TiledMaskAttention"}
RIGHT = {
    "right_torch": ("NotebookAttention", "LatentAttention", "LensAttention", "DiffusionAttention"),
    "right_functions": ("column_major",),
}


def _module(name):
    """Load a module of `published/`, which is not a package."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    full = f"published_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


def _cases(table):
    return [pytest.param(module, name, id=f"{module}.{name}") for module, names in table.items() for name in names]


@pytest.mark.sampled(4)
@pytest.mark.tensorflow
@pytest.mark.parametrize(("module", "name"), _cases(WRONG))
def test_the_mistake_is_named(module, name):
    found = diagnose(getattr(_module(module), name), mask="hides" if name in HIDES else "attends")
    assert sorted(found.ids) == WRONG[module][name].split()


@pytest.mark.tensorflow
@pytest.mark.parametrize(("module", "name"), _cases(RIGHT))
def test_right_code_is_not_accused(module, name):
    found = diagnose(getattr(_module(module), name))
    assert found.right, found.ids


@pytest.mark.parametrize("module", [*WRONG, *RIGHT])
def test_each_names_its_thread_and_is_tested(module):
    """The docstring's first line names thread and mistake."""
    names = {**WRONG, **RIGHT}[module]
    found = _module(module)
    made = {name: thing for name, thing in vars(found).items() if getattr(thing, "__module__", "") == found.__name__}
    assert {name for name, thing in made.items() if inspect.getdoc(thing) and thing.__doc__} == set(names)
    for name in names:
        thread, _, mistake = inspect.getdoc(made[name]).splitlines()[0].partition(": ")
        assert "#" in thread or "/" in thread
        assert mistake


def test_the_bank_knows_them():
    assert {one for names in WRONG.values() for ids in names.values() for one in ids.split()} <= BANK.keys()
