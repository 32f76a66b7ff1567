import linecache
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from kmha.sandbox.encoding import decode
from kmha.sandbox.worker import PRINTED, SIGNATURE, TruncatedOutput, arrays, evaluate, execute, signature


def _module(code):
    module = types.ModuleType("answer")
    exec(code, vars(module))  # noqa: S102 - the texts of this file
    return module


def _evaluate(code, function=None, **inputs):
    return evaluate(_module(code), "f", {"function": function, "inputs": inputs})


def test_a_call():
    assert _evaluate("def f(a, b): return a - b", a=5, b=3) == {"result": 2, "error": None, "changed": []}


def test_source_of_a_function_instead_of_a_call():
    function = "def ask(module, inputs):\n    return module.f(inputs['a']) + np.ones(2)\n"
    assert _evaluate("def f(a): return a", function, a=5)["result"].tolist() == [6, 6]


def test_the_signature():
    assert _evaluate("def f(a, b=3, *, c): pass", SIGNATURE)["result"] == {"": ["a", "b", "c"]}


def test_the_signature_of_a_class():
    class Layer:
        size = 3

        def __init__(self, size): ...

        def call(self, query, value=None): ...

    assert signature(Layer) == {"__init__": ["self", "size"], "call": ["self", "query", "value"]}


def test_the_signature_of_a_method_that_is_wrapped():
    class Wrapped:
        def __init__(self, function):
            self.__wrapped__ = function

        def __call__(self, *args): ...

    class Layer:
        Part = int

        @Wrapped
        def call(self, inputs): ...

    assert signature(Layer) == {"call": ["self", "inputs"]}


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("def f(a): return a[5]", "IndexError", "index 5 is out of bounds"),
        ("def f(a): raise SystemExit(3)", "SystemExit", "3"),
        ("def f(a): raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("def f(): pass", "TypeError", "unexpected keyword argument 'a'"),
        ("class E(Exception):\n    def __str__(self): return 1 / 0\ndef f(a): raise E", "E", ""),
    ],
)
def test_an_error_is_a_result(code, kind, says):
    found = _evaluate(code, a=np.zeros(3))
    assert found["error"]["kind"] == kind
    assert says in found["error"]["says"]
    assert found["result"] is None


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("def f(a, b): a[0] = 7", ["a"]),
        ("def f(a, b): b[1]['c'][0] = 7", ["b"]),
        ("def f(a, b): a = a + 1; b = None", []),
        ("def f(a, b): b.append(a)", ["b"]),
        ("def f(a, b): a[0] = 7; raise ValueError", ["a"]),
        ("import numpy as np\ndef f(a, b): np.array_equal = lambda *_, **__: True; a[0] = 7", ["a"]),
    ],
)
def test_inputs_that_are_changed(code, changed, monkeypatch):
    monkeypatch.setattr(np, "array_equal", np.array_equal)  # one of the answers puts another in its place
    found = _evaluate(code, a=np.array([1.0, np.nan]), b=[np.ones(2), {"c": np.ones(3)}])
    assert found["changed"] == changed


def test_arrays_in_a_value():
    one, two = np.zeros(2), np.ones(3)
    found = arrays({"a": [one, (two, 3)], "b": "text"})
    assert [id(array) for array in found] == [id(one), id(two)]


def test_output_is_truncated():
    tail = TruncatedOutput()
    print("a" * 10, file=tail)
    assert tail.take() == "a" * 10 + "\n"
    tail.write("b" * (PRINTED + 1234))
    assert tail.take() == "b" * PRINTED + "… and 1,234 more characters"
    assert tail.take() == ""


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Run tasks and return their messages; unload their modules afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {*sys.modules}

    def run(name, calls=(), **sources):
        sent = []
        state = np.random.get_state()
        files = {f"{key}.py": np.frombuffer(text.encode(), np.uint8) for key, text in sources.items()}
        execute({"name": name, "files": files, "calls": calls}, lambda message: sent.append(decode(message)))
        np.random.set_state(state)
        return sent

    yield run
    for name in {*sys.modules} - before:
        del sys.modules[name]


def test_a_task(answers):
    code = "from answered_other import two\nprint('loading')\ndef answered_main(a):\n    print('here')\n"
    code += "    return a * two\n"
    calls = [{"function": None, "inputs": {"a": 4}}, {"function": None, "inputs": {"a": 5}}]
    loaded, one, two = answers("answered_main", calls, answered_main=code, answered_other="two = 2\n")
    assert loaded == {"error": None, "printed": "loading\n"}
    assert one == {"result": 8, "error": None, "changed": [], "printed": "here\n"}
    assert two["result"] == 10


@pytest.mark.parametrize("encoding", ["utf-7", "latin-1", "rot13", "no-such-encoding"])
def test_the_code_that_runs_is_the_text_that_others_read(answers, encoding):
    """With UTF-7, an answer was to the grader a few comments, and to Python the solution."""
    cookie = f"# -*- coding: {encoding} -*-\n"
    code = f"{cookie}# +AAo-two = 'hidden'\nfrom answered_other import two\ndef answered_main(): return 'é' + two\n"
    call = {"function": None, "inputs": {}}
    _, found = answers("answered_main", [call], answered_main=code, answered_other=f"{cookie}two = 'ö'\n")
    assert found["result"] == "éö"
    assert "".join(linecache.getlines(str(Path.cwd() / "answered_main.py"))) == code


def test_every_call_starts_from_the_same_random_state(answers):
    code = "import random, numpy as np\ndef answered_main(): return random.random(), np.random.rand()\n"
    _, one, two = answers("answered_main", [{"function": None, "inputs": {}}] * 2, answered_main=code)
    assert one["result"] == two["result"]


@pytest.mark.parametrize(
    ("code", "kind", "says", "line"),
    [
        ("def other(): pass\n", "", "answered_main.py does not define `answered_main`", None),
        ("x = 1\ndef answered_main(:\n", "SyntaxError", "invalid syntax", 2),
        ("import math\n\n1 / 0\n", "ZeroDivisionError", "division by zero", 3),
        ("raise SystemExit\n", "SystemExit", "", 1),
    ],
)
def test_a_file_that_cannot_be_loaded(answers, code, kind, says, line):
    (loaded,) = answers("answered_main", [{"function": None, "inputs": {}}], answered_main=code)
    error = loaded["error"]
    assert (error["kind"], error["says"], error["line"]) == (kind, says, line)


def test_a_result_that_cannot_be_sent(answers):
    code = "def answered_main(a): return object() if a else 3\n"
    calls = [{"function": None, "inputs": {"a": a}} for a in (1, 0)]
    _, one, two = answers("answered_main", calls, answered_main=code)
    assert "cannot send a object" in one["error"]["says"]
    assert two["result"] == 3


def test_the_line_of_an_error(answers):
    code = "import json\n\ndef answered_main():\n    return json.loads('{')\n"
    _, found = answers("answered_main", [{"function": None, "inputs": {}}], answered_main=code)
    error = found["error"]
    assert (error["line"], error["text"], error["file"]) == (4, "return json.loads('{')", "answered_main.py")


TRACED = """
from types import SimpleNamespace

def answered_main():
    error = ValueError("no")
    stack = [("elsewhere.py", 1, "raise"), (__file__, 7, "    y = f(x)"), (__file__, 3, "answered_main()")]
    names = "filename", "lineno", "code"
    error.ag_error_metadata = SimpleNamespace(
        translated_stack=[SimpleNamespace(**dict(zip(names, each))) for each in stack]
    )
    generated = __file__.replace("answered_main.py", "__autograph_generated_file1.py")
    exec(compile("raise error", generated, "exec"), {"error": error})
"""


@pytest.mark.parametrize("known", [True, False])
def test_the_line_of_an_error_in_a_function_that_autograph_wrote(answers, known):
    code = TRACED if known else TRACED.replace("error.ag_error_metadata", "error.other")
    _, found = answers("answered_main", [{"function": None, "inputs": {}}], answered_main=code)
    error = found["error"]
    line, text = (7, "y = f(x)") if known else (12, code.splitlines()[11].strip())
    assert (error["line"], error["text"], error["file"]) == (line, text, "answered_main.py")
