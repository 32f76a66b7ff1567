import ast
import json
import sys
import time

import pytest

from kmha.course.exercises import cells
from kmha.course.exercises.cells import defined_names, gather, parse


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        (["def f(): return 1", "def f(): return 2"], "def f(): return 2\n"),
        (["f(3)", "def f(x):\n    # a comment\n    return x"], "def f(x):\n    # a comment\n    return x\n"),
        (["@g\ndef f(): pass", "def g(h): return h"], "def g(h): return h\n@g\ndef f(): pass\n"),
        (["class f(B):\n    x = C", "class B: pass", "C = 3"], "class B: pass\nC = 3\nclass f(B):\n    x = C\n"),
        (["def f(): return g()", "def g(): return f()"], "def g(): return f()\ndef f(): return g()\n"),
        (["x = 1; y = 2", "def f(): return y"], "y = 2\ndef f(): return y\n"),
        (["x = 1", "x += 1", "x = 7", "def f(): return x"], "x = 7\ndef f(): return x\n"),
        (["x = 1", "x += 1", "def f(): return x"], "x = 1\nx += 1\ndef f(): return x\n"),
        (["f = lambda x: x + y", "y = 3"], "y = 3\nf = lambda x: x + y\n"),
        (["import numpy as np", "%magic", "from a import b, c", "def f(): return np, c"],
         "import numpy as np\nfrom a import b, c\ndef f(): return np, c\n"),
        (["x = 1; y = \"\"\"a\nb\"\"\"; z = 3", "def f(): return y, z"],
         "y = 'a\\nb'\nz = 3\ndef f(): return y, z\n"),
        (["x = 'a\x0cb\u2028c'\ny = 2", "def f(): return y"], "y = 2\ndef f(): return y\n"),
        (["def f():\n    return [z for z in w]", "w = 1\nz = 2"], "w = 1\ndef f():\n    return [z for z in w]\n"),
    ],
)  # fmt: skip
def test_the_last_definition_with_what_it_uses(sources, text):
    assert gather(sources, "f") == text


def test_time_is_linear_in_statements_and_chains():
    """Quadratic work on 3,000 statements would take minutes."""
    line = ";".join(f"a{number}={number}" for number in range(3_000))
    chain = "\n".join(f"b{number + 1}=b{number}" for number in range(3_000))
    sum_of_all = "=".join(f"c{number}" for number in range(9_000)) + "=" + "+".join(["b3000"] * 300)
    start = time.process_time()
    assert gather([line, chain, sum_of_all, "def f(): return a7, b2, c5"], "f").startswith(
        "a7 = 7\nb1=b0\nb2=b1\nb3=b2"
    )
    assert time.process_time() - start < 10


def test_the_statements_have_a_limit():
    sources = ["a = 1; b = 2", "print(3)", "a = 1; b = 2", "def f(:"]
    assert list(parse(sources, 3)) == ["a = 1; b = 2", "print(3)", "def f(:"]
    with pytest.raises(ValueError, match="more than 2 statements"):
        parse(sources, 2)


def test_names_times_functions_have_a_limit():
    """Python copies all names of a function for each function inside: a notebook of 250 KB took it 99 seconds."""
    names = "=".join(chr(0x4E00 + number) for number in range(20_000))
    cell = f"def f():\n {names}=0\n [{('lambda:' * 40 + '0,') * 20}]\n"
    with pytest.raises(ValueError, match="20,001 names and 801 functions"):
        gather([cell], "f")


@pytest.mark.parametrize(
    "binding",
    [
        "global {}",
        "match x:\n  case [{}]: pass",
        "match x:\n  case [*{}]: pass",
        "import {}",
        "from m import {}",
        "del {}",
    ],
)
def test_names_that_stand_in_the_tree_as_texts_count_too(binding):
    """With the names in `global` or `case`, a notebook of 250 KB took 80 seconds, in which nothing else ran."""
    names = [chr(0x4E00 + number) for number in range(20_000)]
    lines = "\n ".join(map(binding.format, names)) if "*" in binding else binding.format(",".join(names))
    cell = f"def f(x):\n {lines}\n {'lambda:' * 80}0\n"
    with pytest.raises(ValueError, match=r"20,00\d names and 81 functions"):
        gather([cell], "f")


def test_names_of_functions_classes_and_errors_count_too():
    bodies = ["def {}(): 0", "class {}: 0", "try: 0\n except E as {}: 0", "match x:\n  case {{**{}}}: 0", "nonlocal {}"]
    for body in bodies:
        node = ast.parse("def g():\n " + body.format("b") + "\n").body[0]
        assert cells._scoped_names(node) // max(1, sum(isinstance(each, cells._SCOPE) for each in ast.walk(node))) == 2


def test_names_times_functions_have_a_limit_for_all_statements_together():
    names = "=".join(chr(0x4E00 + number) for number in range(10_000))
    nested = [f"def f{n}():\n {names}=0\n return " + "lambda: " * 59 + "0\n" for n in range(2)]
    assert gather(nested[:1], "f0")
    with pytest.raises(ValueError, match=r"1,2\d\d,\d{3} pairs of a name and a function, at most 1,000,000"):
        gather(nested, "f0")


def test_no_names_are_copied_for_each_name_that_is_looked_up():
    """A notebook with 20 statements that define and use 3,000 names took 18 seconds."""

    class Names(frozenset):
        def __or__(self, other):
            raise AssertionError

        __sub__ = __or__

    statements = [cells.Statement(f"a = b, {n}", frozenset("a"), Names("ab"), frozenset("a")) for n in range(2)]
    assert gather(["x"], "a", parsed={"x": statements}) == "a = b, 0\na = b, 1\n"


def test_functions_side_by_side_have_a_limit():
    """`symtable` looks through all functions for each name."""
    wide = "class A:\n" + "\n".join(f"    x{number} = lambda: 0" for number in range(201))
    assert gather([wide.replace("    x200 = lambda: 0", "")], "A")
    with pytest.raises(ValueError, match="more than 200 functions"):
        gather([wide], "A")


def test_other_statements_are_left_out():
    """Experiments in a cell are not part of the answer."""
    sources = ["def f(key):\n    value = key\n    return value", "key = slow()", "value = f(key)", "def slow(): 1 / 0"]
    assert gather(sources, "f") == sources[0] + "\n"


def test_nothing_defines_it():
    assert gather(["x = 1", "def g(): pass", "def f(:\n"], "f") is None


def test_other_names_that_are_wanted():
    sources = ["import math", "def g(): return 1", "def f(): return 2", "def h(): return 3"]
    assert gather(sources, "f", "g", "math", "nowhere") == "import math\ndef g(): return 1\ndef f(): return 2\n"


def test_names_that_a_text_defines():
    assert defined_names("import os.path, a as b\nx: int = 3\ny, (z, *w) = q\nclass C: inner = 1\nprint(p)\n") == [
        "b", "os", "x", "w", "y", "z", "C",
    ]  # fmt: skip


def _notebook(**more):
    metadata = {"nbgrader": {"grade_id": "f"}}
    own = {"cell_type": "code", "metadata": metadata, "source": ["def f():\n", "  1"], "outputs": [1], "id": "own"}
    other = {"cell_type": "markdown", "metadata": {"nbgrader": {"grade_id": "text-f"}}, "source": "é", "id": "text"}
    return json.dumps({"cells": [other, own], "nbformat": 4, **more})


def test_the_starter_in_its_cell():
    found = json.loads(cells.replace_cell(_notebook(metadata={"kept": True}), "f", "def f():\n    # é\n"))
    assert found["cells"][1]["source"] == ["def f():\n", "    # é"]
    assert found["cells"][1]["outputs"] == []
    assert found["cells"][1]["id"] == "own"
    assert found["cells"][0]["source"] == "é"
    assert found["metadata"] == {"kept": True}


def test_missing_cell():
    with pytest.raises(ValueError, match="it has no cell for g"):
        cells.replace_cell(_notebook(), "g", "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 3}', '{"cells": [3]}', "[" * 100_000])
def test_not_a_notebook(text):
    with pytest.raises(ValueError, match=r"it is (not a notebook|damaged or incomplete): "):
        cells.load_notebook(text)


@pytest.mark.parametrize("cell", [{}, {"metadata": []}, {"metadata": {"nbgrader": 3}}, {"metadata": {"nbgrader": {}}}])
def test_a_cell_without_a_name(cell):
    assert cells.grade_id(cell) is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "code",
    [
        "import a" + ".a" * 100_000,
        "import a" + " . \\\n a" * 20_000,
        "x = a" + "\u0301\u0316" * 60_000,
        "lambda a" + "\u0301" * 800 + "\u0334" * 800 + ": 1",  # sorted 60 times, as rule after rule fails
        "a" + "\u0f73" * 20_000,  # itself no mark, but made of two
        "import " + "\u2118." * 16_000 + "a",  # a letter for Python, but not for regular expressions
        "import " + "a\u00b7." * 16_000 + "a",
        *(["f'" + "{1}" * 80_000 + "'", 'RF"""' + "{1}\n" * 60_000 + '"""'] if sys.version_info < (3, 12) else []),
    ],
    ids=lambda code: ascii(code[:12]),
)
def test_what_takes_long_to_parse_is_not_parsed(code):
    assert cells.syntax_tree(code) is None


def test_only_a_number_by_itself_is_a_long_number():
    """Looking for one at each `0b` in 250 KB of them took seconds, for each exercise."""
    assert cells._LONG_NUMBER.search("x = 0b" + "1" * 3_000)
    assert cells._LONG_NUMBER.search("x = a0b" + "0b" * 3_000) is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "code",
    [
        f"data = {[0.125] * 30_000}",
        f"text = {'A sentence about attention. ' * 9_000!r}",
        "text = '" + "\u0939\u093f\u0928\u094d\u0926\u0940 " * 30_000 + "'",
        f"data = {[{'a': 1}] * 20_000}",
        "x" * 250_000,
        f"{'x ' * 120_000!r}",
        "text = '" + "Tie\u0302\u0301ng Vie\u0323\u0302t \u05d1\u05b0\u05bc\u05e8\u05b5\u05d0 " * 5_000 + "'",
        f"text = {'Größe und Länge. 注意力。…' * 9_000!r}",
        f"data = {[int('9' * 500, 16)] * 200}",
    ],
    ids=lambda code: ascii(code[:12]),
)
def test_data_and_prose_are_parsed(code):
    """Otherwise a notebook with a long text in it would be left out."""
    assert cells.syntax_tree(code) is not None
