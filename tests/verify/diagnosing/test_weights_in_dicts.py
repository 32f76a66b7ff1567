"""Functions that read their weights from dicts."""

import linecache

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import weights_in_dicts


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "chain", "ids"),
    [
        ("attend", "attention", ()),
        ("attend_without_scale", "attention", ("scale-missing",)),
        ("from_keys", "attention", ()),
        ("block", "encoder", ()),
        ("block_without_residual", "encoder", ("residual-missing-attention",)),
        ("with_one_dict", "encoder", ()),
        ("with_states", "attention", ()),
        ("with_an_object", "attention", ()),
        ("multi_query", "attention", ()),
        ("with_two_dicts", "attention", ()),
        ("without_scale", "attention", ("scale-missing",)),
    ],
)
def test_the_weights_are_made_as_the_code_reads_them(candidate, name, chain, ids):
    found = diagnose(candidate("numpy_dicts", name))
    assert (found.candidate.chain, found.ids) == (chain, ids)
    assert bool(found.right) == (not ids)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["attend_without_scale", "block_without_residual"])
def test_the_script_makes_the_dicts(candidate, name):
    function = candidate("numpy_dicts", name)
    code = diagnose(function).code()
    assert "**weights" in code
    exec(code, {})  # noqa: S102 - our own text


def test_the_trees_that_code_reads(candidate):
    trees = weights_in_dicts.trees_of(candidate("numpy_dicts", "with_one_dict"))
    names = "ln1.gamma ln1.beta ln2.gamma ln2.beta ffn.W1 ffn.b1 ffn.W2 ffn.b2 attn.Wq attn.Wk attn.bk attn.Wv attn.Wo"
    assert {*weights_in_dicts.paths(trees)} == {("params", *name.split(".")) for name in names.split()}
    assert weights_in_dicts.trees_of(np.split) == {}


def test_code_with_many_calls_is_read_once():
    names = [f"f{number}" for number in range(30)]
    scope = {}
    code = "def f30(x): return x['w']\n"
    for number in reversed(range(30)):
        code += f"def f{number}(x): return {' + '.join([f'f{number + 1}(x)'] * 9)}\n"
    linecache.cache["many.py"] = len(code), None, code.splitlines(keepends=True), "many.py"
    exec(compile(code, "many.py", "exec"), scope)  # noqa: S102 - our own text
    for name in (*names, "f30"):
        scope[name].__module__ = __name__
    assert weights_in_dicts.trees_of(scope["f27"]) == {"x": {"w": {}}}
    assert weights_in_dicts.trees_of(scope["f0"]) == {}  # too deep


def test_names_that_are_unknown_are_not_guessed(candidate):
    trees = weights_in_dicts.trees_of(candidate("numpy_dicts", "with_unknown_names"))
    assert weights_in_dicts.shapes([*weights_in_dicts.paths(trees)], 8, 32) is None
