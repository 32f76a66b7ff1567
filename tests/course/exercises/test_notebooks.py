import json
import time

import pytest

from kmha.course.exercises import notebooks
from kmha.course.judging.pipeline import judge

nbformat = pytest.importorskip("nbformat")


def _cell(source, id=None, kind="code"):
    return {"cell_type": kind, "source": source, "metadata": {"nbgrader": {"grade_id": id}} if id else {}}


def _sources(doubling, *cells):
    return notebooks.answers({"cells": list(cells)}, doubling)


def test_the_cells_of_a_learners_notebook(doubling):
    notebook = notebooks.student(doubling)
    nbformat.validate(notebook)
    assert [(cell.cell_type, cell.metadata.nbgrader.grade_id) for cell in notebook.cells] == [
        ("markdown", "opening"),
        ("markdown", "text-twice"),
        ("code", "twice"),
        ("code", "check-twice"),
        ("markdown", "text-again"),
        ("code", "again"),
        ("code", "check-again"),
    ]
    assert notebook.cells[0].source == "# Doubling\n\nAn opening."
    assert "factor_of_the_solution" not in nbformat.writes(notebook)
    assert "hint" not in nbformat.writes(notebook)


def test_nbgrader_knows_solutions_and_tests_with_their_points(doubling):
    cells = notebooks.student(doubling).cells
    marks = [cell.metadata.nbgrader for cell in cells]
    assert [mark.solution for mark in marks] == [False, False, True, False, False, True, False]
    assert [mark.grade for mark in marks] == [False, False, False, True, False, False, True]
    assert [mark.locked for mark in marks] == [True, True, False, True, True, False, True]
    assert [mark.points for mark in marks if mark.grade] == [32, 5]
    assert {mark.schema_version for mark in marks} == {3}
    assert cells[3].source == 'from kmha.course import check\n\ncheck("a1.twice").show()'


def test_the_same_masters_give_the_same_file(doubling):
    assert nbformat.writes(notebooks.student(doubling)) == nbformat.writes(notebooks.student(doubling))


def test_a_notebook_has_no_file_of_another_exercise(doubling):
    assert notebooks.student(doubling).cells[5].source.startswith("# twice: as you wrote it above\n")


def test_solutions_come_back_and_pass(doubling, sandbox):
    found = notebooks.answers(json.loads(nbformat.writes(notebooks.solved(doubling))), doubling)
    assert list(found) == ["twice", "again"]
    for item in doubling.items:
        assert judge(item, found[item.name], sandbox, seed=3, files={"twice.py": found["twice"]}).passed


ANSWER = "def twice(array):\n    return 2 * array"
MARKS = "\u0301" * 350 + "\u0334" * 350  # half of the effort of a text


@pytest.mark.parametrize(
    "cells",
    [
        [_cell(ANSWER, "twice")],
        [_cell(ANSWER.splitlines(keepends=True), "twice")],
        [_cell("# Twice as much", kind="markdown"), _cell(ANSWER)],
        [_cell("def twice(array):\n    raise NotImplementedError", "twice"), _cell(ANSWER)],
        [_cell(ANSWER, "twice"), _cell("check('a1.twice')", "check-twice")],
        [_cell("%matplotlib inline\n" + ANSWER, "twice")],
        [_cell("%%time\n" + ANSWER, "twice")],
        [_cell("!pip install kmha\ntwice?\nfiles = !ls\n" + ANSWER, "twice")],
        [_cell("%%writefile twice.py\n" + ANSWER)],
        [_cell("%%bash\ndef twice(array): 5", "twice"), _cell(ANSWER)],
        [_cell("1 / 0"), _cell(ANSWER)],
        [_cell(ANSWER, "twice"), _cell("print(twice(undefined))")],
        [_cell(ANSWER, "twice"), _cell("# Four times as much", kind="markdown"), _cell("def again(x): pass")],
    ],
)
def test_an_answer_is_found(doubling, cells):
    assert _sources(doubling, *cells)["twice"].strip() == ANSWER


def test_what_an_answer_uses_comes_with_it(doubling):
    cells = [
        _cell("import numpy as np\nimport math"),
        _cell("factor = np.int64(2)"),
        _cell("def twice(x): return factor * x"),
    ]
    assert _sources(doubling, *cells) == {
        "twice": "import numpy as np\nfactor = np.int64(2)\ndef twice(x): return factor * x\n"
    }


def test_definitions_come_after_what_they_use(doubling):
    """The last import of a name can be below the class that uses it."""
    cells = [
        _cell("import collections\n\nclass Base(collections.UserDict):\n    pass", "twice"),
        _cell("import collections\n\ndef again(x):\n    return collections.Counter, Base", "again"),
    ]
    assert _sources(doubling, *cells)["again"] == (
        "import collections\nclass Base(collections.UserDict):\n    pass\n"
        "def again(x):\n    return collections.Counter, Base\n"
    )


def test_cell_that_cannot_be_parsed_is_the_answer(doubling):
    assert _sources(doubling, _cell("def twice(array:\n    return", "twice")) == {
        "twice": "def twice(array:\n    return"
    }


@pytest.mark.parametrize("notebook", [[], {}, {"cells": 3}, {"worksheets": []}, None, "text"])
def test_not_a_notebook(doubling, notebook):
    with pytest.raises(ValueError, match=r"it has no cells\. Open it in Jupyter"):
        notebooks.answers(notebook, doubling)


def test_cells_can_be_anything(doubling):
    cells = [
        3,
        None,
        {},
        _cell(5),
        _cell([5, "x"]),
        {**_cell("x"), "metadata": 7},
        {**_cell("y"), "metadata": {"nbgrader": []}},
    ]
    assert _sources(doubling, *cells) == {}
    assert _sources(doubling, _cell("def twice(x):\n    return '\ud800'"))["twice"] == "def twice(x):\n    return '?'\n"


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([_cell("#" * 150_000), _cell("#" * 150_000)], "its code cells contain more than 256 KiB"),
        ([_cell("a=1;" * 3_000), _cell("b=1;" * 3_000)], "more than 5,000 statements"),
    ],
)
def test_the_code_has_a_limit(doubling, cells, says):
    assert _sources(doubling, cells[0]) == {}
    with pytest.raises(ValueError, match=says):
        _sources(doubling, *cells)


def test_a_cell_full_of_cell_magics_is_not_parsed_line_by_line(doubling, monkeypatch):
    """It took seconds, and a notebook can have forty of them."""
    parse, calls = notebooks.cells.syntax_tree, []
    monkeypatch.setattr(notebooks.cells, "syntax_tree", lambda code: calls.append(code) or parse(code))
    _sources(doubling, _cell("%%capture\n" * 900 + "(", "twice"))
    assert len(calls) < 20
    assert _sources(doubling, _cell("%%capture\n%%time\n" + ANSWER, "twice"))["twice"]


def test_cells_that_take_long_together_are_not_parsed(doubling, monkeypatch):
    """Each was parsed before their efforts were added, to remove magics: 25 cells of 20 KB took a minute."""
    monkeypatch.setattr(notebooks.cells, "syntax_tree", lambda code: pytest.fail("it was parsed"))
    cells = [_cell(f"f(a{MARKS}={number}, b c)\n") for number in range(5)]
    with pytest.raises(ValueError, match=r"too many dots, braces or combining marks.*Remove what"):
        _sources(doubling, *cells)


def test_each_code_cell_is_counted_before_it_is_parsed(doubling, monkeypatch):
    counted = []
    parse, seen = notebooks.cells.syntax_tree, []
    monkeypatch.setattr(notebooks.cells, "syntax_tree", lambda code: seen.append(code in counted) or parse(code))
    cells = [_cell(ANSWER, "twice"), {"cell_type": "markdown", "source": "# text"}, _cell("x = 1")]
    assert "twice" in notebooks.answers({"cells": cells}, doubling, counted.append)
    assert counted == [ANSWER, "x = 1"]
    assert seen[:2] == [True, True]


@pytest.mark.parametrize(
    "before",
    [
        "from cmath import *\nfrom string import *\n",
        "spec = {}\nspec['of'] = pi = 3\n",
        "class Of: pass\nspec = Of()\nspec.of = pi = 3\n",
        "spec = []\nfor each in range(3):\n    spec.append(each)\npi = spec\n",
        "pi = [0]\npi[0] += 3\n",
    ],
)
def test_what_fills_or_changes_a_value_is_part_of_it(doubling, before):
    answer = f"def twice(x):\n    return pi, {'spec' if 'spec' in before else 0}\n"
    others = "print(1)\nother = {}\nother[1] = 2\n"
    found = _sources(doubling, _cell(before + others), _cell(answer, "twice"))
    assert found["twice"] == before + answer


def test_a_magic_alone_in_a_block(doubling):
    code = "import sys\nif 'google.colab' in sys.modules:\n    !pip install numpy\n"
    found = _sources(doubling, _cell(code + ANSWER, "twice"))["twice"]
    assert found == f"{ANSWER}\n"


@pytest.mark.parametrize(
    "line", ["x = " + "1+" * 1_500 + "1", "x = np.append(twice(3), nothere)", "seen.append(twice(1))"]
)
def test_other_cells_do_not_matter(doubling, line):
    answer = "import numpy as np\nseen = [np.pi]\ndef twice(x):\n    return np.multiply(2, x), seen\n"
    assert _sources(doubling, _cell(answer, "twice"), _cell(f"{line}\n"))["twice"] == answer


@pytest.mark.parametrize(
    "line", ["from matplotlib.pyplot import *", "from numpy import *", "from keras import *", "from math import *"]
)
def test_a_star_import_that_is_not_needed_is_left_out(doubling, line):
    assert _sources(doubling, _cell(f"{line}\n"), _cell(ANSWER, "twice"))["twice"] == f"{ANSWER}\n"


def test_of_a_star_import_only_what_is_needed_is_imported(doubling):
    answer = "def twice(array):\n    return einsum('i->i', asarray([2])) * sum(array, axis=0) * len(array) * tau\n"
    found = _sources(doubling, _cell("from numpy import *  # all\nfrom math import *\n" + answer, "twice"))["twice"]
    assert found == "from numpy import asarray, einsum, sum\nfrom math import tau\n" + answer


def test_code_that_cannot_be_parsed_is_an_answer_whose_error_is_shown(doubling):
    broken = "def twice(array:\n    return array"
    assert _sources(doubling, _cell(broken)) == {"twice": broken}


def test_time_is_linear_in_empty_lines(doubling):
    """Quadratic work in the search for magics would take minutes."""
    start = time.process_time()
    assert _sources(doubling, _cell("\n" * 100_000 + "def twice(:"), _cell("%magic\n\n" + ANSWER, "twice"))
    assert time.process_time() - start < 10
