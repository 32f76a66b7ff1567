from kmha.course.judging.kinds import missing_return

SOLUTION = """
def f(x):
    return x


class L:
    def call(self, x):
        return x

    def build(self):
        self.a = 1
"""


def _id(code):
    found = missing_return(code, SOLUTION)
    return found and found.says


def test_a_function_without_return():
    assert "`f`" in _id("def f(x):\n    x + 1\n")
    assert "`L.call`" in _id("class L:\n    def call(self, x):\n        x\n")
    assert "`f`" in _id("def f(x):\n    return\n")


def test_functions_that_return():
    for body in ("return x", "if x:\n        return 2", "yield x", "raise NotImplementedError"):
        assert _id(f"def f(x):\n    {body}\n") is None


def test_functions_that_return_nothing_in_the_solution():
    assert _id("class L:\n    def build(self):\n        pass\n\n\ndef helper():\n    pass\n") is None


def test_code_that_cannot_be_parsed():
    assert _id("def f(") is None
