import pytest

from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence.source_text import functions_of


class Plain:
    def __init__(self):
        self.factor = 1

    def call(self, x):
        return x + self.factor


class Overriding(Plain):
    def call(self, x):
        return x * self.factor


class Extending(Plain):
    def call(self, x):
        return super().call(x) * 2


@pytest.mark.parametrize(
    ("layer_class", "operators"), [(Plain, ["x +"]), (Overriding, ["x *"]), (Extending, ["super", "x +"])]
)
def test_overridden_methods_are_no_code_of_a_class_that_does_not_call_them(layer_class, operators):
    candidate = Candidate()
    candidate.layer_class = layer_class
    read = [each for each in functions_of(candidate) if each.name == "call"]
    assert len(read) == len(operators)
    assert all(operator in "".join(each.lines) for each, operator in zip(read, operators, strict=True))
    assert any(each.name == "__init__" for each in functions_of(candidate))
