import pytest

from kmha.course.exercises.master import MasterError, parse

TEXT = """# %% [markdown]
# # A title
#
# The text.

# %%
import numpy as np


class Both:
    def one(self):
        ### BEGIN SOLUTION
        return 1
        ### END SOLUTION

    def two(self):
        two = 2
        ### BEGIN SOLUTION
        return two
        ### STARTER
        # twice = two  # a comment
        #
        # if twice:
        #     return 3
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# One.

# %% [markdown] tags=["hint"]
# Two.

# %% [markdown] tags=["hint"]
# Three.
"""


def test_the_parts():
    found = parse(TEXT, "a1/both.py")
    assert found.title == "A title"
    assert found.text == "# A title\n\nThe text."
    assert found.hints == ("One.", "Two.", "Three.")


def test_the_solution_and_the_starter():
    found = parse(TEXT, "a1/both.py")
    assert found.solution == (
        "import numpy as np\n\n\nclass Both:\n    def one(self):\n        return 1\n\n    def two(self):\n"
        "        two = 2\n        return two\n"
    )
    assert found.starter == (
        "import numpy as np\n\n\nclass Both:\n    def one(self):\n        # YOUR CODE HERE\n"
        '        raise NotImplementedError("write this part")\n\n    def two(self):\n        two = 2\n'
        "        twice = two  # a comment\n        \n        if twice:\n            return 3\n"
    )
    for code in (found.solution, found.starter):
        compile(code, "both.py", "exec")
        assert "###" not in code


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# # A title", "# A title", "the text must begin with a heading"),
        ("# Three.\n", '# Three.\n\n# %% [markdown] tags=["hint"]\n# Four.\n', "Received: 4"),
        ('# %% [markdown] tags=["hint"]\n# One.\n', "", "Received: 2"),
        ("        ### END SOLUTION\n\n    def", "    def", "must have a solution between"),
        ("### BEGIN SOLUTION", "### BEGIN", "must have a solution between"),
        ("# %%\nimport", "# %% [markdown]\n# More.\n\n# %%\nimport", "Received: markdown, markdown, code"),
    ],
)
def test_malformed_masters(old, new, message):
    assert old in TEXT
    with pytest.raises(MasterError, match=f"a1/both.py: .*{message}"):
        parse(TEXT.replace(old, new), "a1/both.py")
