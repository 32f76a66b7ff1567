"""Tests of the yardstick: faults that we inject ourselves are found where they are, and named."""

import copy
import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kmha.verify.bank.yardstick import caches, effects, localizing, measure, models, root_causes


def test_a_cause_is_voted_by_all_findings() -> None:
    scaled = [(f"bert.encoder.layer.{n}.output.LayerNorm", "result scaled") for n in range(2)]
    assert root_causes.cause([*scaled, ("bert.encoder.layer.0.attention.self.query", "result scaled")]) == (
        "residual",
        "residual_scaling",
    )
    inside = [(f"bert.encoder.layer.0.attention.self.{name}", "result zero") for name in ("query", "key")]
    assert root_causes.cause(inside) == ("variant", "variant_configuration")
    assert root_causes.cause([]) == root_causes.UNKNOWN


def test_macro_f1_counts_each_label_once() -> None:
    assert measure.macro_f1([("a", "a")] * 9 + [("b", "a")]) == pytest.approx((18 / 19 + 0) / 2)


def test_figures_count_only_faults_that_change_a_result() -> None:
    right = measure.Case("QZQ", "", "BERT", ("qkv", "parameter_initialization"), changes=True)
    found = dataclasses.replace(right, findings=(("bert.encoder.layer.0.attention.self.query", "weights zero"),))
    silent = measure.Case("FRG", "", "BERT", ("ffn", "regularization"))
    figures = measure.figures([right, found, silent])
    assert figures.faults == 2
    assert figures.detected == 0.5
    assert figures.root_cause == pytest.approx(2 / 3)


def _torch() -> Any:
    pytest.importorskip("transformers")
    return pytest.importorskip("torch")


def _zero(module: Any) -> None:
    module.weight.data.zero_()


def _scale(module: Any) -> None:
    module.weight.data.mul_(3.0)


def _returns(of: Callable[[Any], Any]) -> Callable[[Any], None]:
    def inject(module: Any) -> None:
        original = module.forward
        module.forward = lambda *given, **named: of(original(*given, **named))

    return inject


@pytest.mark.parametrize(
    ("path", "inject", "effect", "cause"),
    [
        ("model.decoder.layers.1.self_attn.k_proj", _zero, "weights zero", "parameter_initialization"),
        ("model.decoder.layers.0.fc2", _scale, "weights scaled", "weight_scaling"),
        ("model.decoder.layers.0.final_layer_norm", _scale, "weights scaled", "scale_parameter"),
        ("lm_head", _returns(lambda result: result * 2), "result scaled", "output_scaling"),
        ("model.decoder.embed_positions", _returns(lambda result: result * 0), "result zero", "indexing"),
    ],
)
def test_a_fault_is_found_where_it_is(path: str, inject: Callable[[Any], None], effect: str, cause: str) -> None:
    _torch()
    clean = models.built("OPT")
    model = copy.deepcopy(clean)
    inject(model.get_submodule(path))
    ids, mask = models.inputs()
    calls = localizing.record(model, input_ids=ids, attention_mask=mask, use_cache=False)
    found = localizing.suspects(model, clean, calls)
    assert [suspect.path for suspect in found] == [path]
    assert effects.effect(found[0]) == effect
    assert root_causes.cause([(path, effect)])[1] == cause


def test_a_model_without_a_fault_has_no_suspects() -> None:
    _torch()
    for name in models.MODELS:
        clean = models.built(name)
        ids, mask = models.inputs()
        calls = localizing.record(clean, input_ids=ids, attention_mask=mask, use_cache=False)
        assert localizing.suspects(clean, copy.deepcopy(clean), calls) == []


def test_a_missing_scale_inside_attention_is_named_by_the_bank() -> None:
    _torch()
    clean = models.built("GPT-2")
    model = copy.deepcopy(clean)
    model.transformer.h[0].attn.scaling = 1.0
    ids, mask = models.inputs()
    (suspect,) = localizing.suspects(
        model, clean, localizing.record(model, input_ids=ids, attention_mask=mask, use_cache=False)
    )
    assert effects.effect(suspect) == "scale-missing"
    assert root_causes.cause([(suspect.path, "scale-missing")]) == ("score", "normalization")


def test_a_broken_cache_is_named() -> None:
    torch = _torch()
    clean = models.built("OPT")
    assert caches.effect(copy.deepcopy(clean), clean) == ""
    model = copy.deepcopy(clean)
    original = model.forward

    def forward(**named: Any) -> Any:
        if named.get(caches.CACHE) is not None:
            for layer in named[caches.CACHE].layers:
                layer.keys = torch.cat([torch.zeros_like(layer.keys[..., :1, :]), layer.keys[..., :-1, :]], -2)
                layer.values = torch.cat([torch.zeros_like(layer.values[..., :1, :]), layer.values[..., :-1, :]], -2)
        return original(**named)

    model.forward = forward
    assert caches.effect(model, clean) == "cache shifted by one"


@pytest.mark.skipif(importlib.util.find_spec("defaultplusplus") is None, reason="defaultplusplus is not installed")
def test_one_of_deforms_own_faults_is_named() -> None:
    _torch()
    operator = measure.operators()["SUC"]
    case = measure._case("BERT", models.built("BERT"), operator, None)
    assert case.changes
    assert case.named == ("score", "precision_handling")


def test_without_deform_one_line_names_the_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "defaultplusplus", None)
    monkeypatch.setitem(sys.modules, "defaultplusplus.deform", None)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        measure.operators()


def test_a_weight_that_is_another_matrix_is_replaced() -> None:
    rng = np.random.default_rng(0)
    assert effects._change_of_weight(rng.normal(size=(3, 5)), rng.normal(size=(3, 5))) == "replaced"
