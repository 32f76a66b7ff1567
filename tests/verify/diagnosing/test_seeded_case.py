import ast
import sys
import types

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.chains.attention import run
from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.seeded_case import with_drawn_weights


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        pytest.param(
            "keras_layers", "Nameless", {"order": [2, 0, 3, 1], "scaled": False}, marks=pytest.mark.tensorflow
        ),
        ("torch_modules", "Linears", {"wrong": "multiplied"}),
        ("torch_modules", "Causal", {"diagonal": 2}),
    ],
)
def test_the_script_draws_its_weights_and_shows_the_mistake(candidate, module, name, arguments, monkeypatch):
    thing = candidate(module, name)
    home = types.ModuleType("home_of_the_candidate")
    setattr(home, name, thing)
    monkeypatch.setitem(sys.modules, home.__name__, home)
    found = diagnose(thing, arguments=arguments, source=f"{home.__name__}:{name}")
    assert found.verdict == "known"
    code = found.short_code()
    assert len(code.splitlines()) < min(18, len(found.code().splitlines()))
    scope = {}
    exec(code, scope)  # noqa: S102 - what was printed
    result = frameworks.to_numpy(frameworks.output_and_scores(scope["result"])[0])
    drawn = with_drawn_weights(found.candidate, found.smallest.trial)
    trial = found.candidate.evaluate(drawn).trial
    expected = run(trial, [mistake.changes for mistake in found.mistakes])["output"]
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
    right = np.array(ast.literal_eval(code.split("# right: ")[1].splitlines()[0]))
    np.testing.assert_allclose(run(trial)["output"], right, atol=1e-5)
    assert np.abs(result - right).max() > 1e-4


def test_a_function_keeps_the_whole_script(candidate):
    found = diagnose(candidate("arrays", "strict"))
    assert found.short_code() == found.code()
