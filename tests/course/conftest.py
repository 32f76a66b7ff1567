"""A small course, so that no test depends on the real assignments."""

import pytest

TWICE = '''# %% [markdown]
# # Twice as much
#
# Doubles an array of shape (B, T).

# %%
import numpy as np


def twice(array):
    """The array (B, T), doubled."""
    ### BEGIN SOLUTION
    factor_of_the_solution = 2
    return factor_of_the_solution * np.asarray(array)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# The first hint.

# %% [markdown] tags=["hint"]
# The second hint.

# %% [markdown] tags=["hint"]
# The third hint.
'''
TWICE_CHECKS = """from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard


def draw(rng):
    rows, columns = sizes(rng, 2)
    return {"array": rng.normal(size=(rows, columns))}


def positive(inputs, result, expected):
    return None if (result[inputs["array"] > 0] > inputs["array"][inputs["array"] > 0]).all() else "it shrinks."


EXERCISE = Exercise(
    title="Twice as much",
    question="What is twice as much?",
    difficulty=1,
    minutes=2,
    checks=(
        *standard(draw, signature=1, shape=2, values=4, unchanged=1),
        Check("invariants", "what is positive grows", 8, draw, judge=positive),
        Check("edge", "the check that is hidden", 16, draw, visible=False),
    ),
    wrong=(Wrong("thrice-as-much", "The factor is 3.", {"of_the_solution = 2": "of_the_solution = 3"}, "a thread"),),
)
"""
AGAIN = '''# %% [markdown]
# # Four times as much
#
# Doubles twice.

# %%
from twice import twice


def again(array):
    """The array (B, T), doubled twice."""
    ### BEGIN SOLUTION
    return twice(twice(array))
    ### STARTER
    # return array
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# The first hint of again.

# %% [markdown] tags=["hint"]
# The second hint of again.

# %% [markdown] tags=["hint"]
# The third hint of again.
'''
AGAIN_CHECKS = (
    TWICE_CHECKS[: TWICE_CHECKS.index("EXERCISE")]
    + """EXERCISE = Exercise(
    title="Four times as much",
    question="What is four times as much?",
    difficulty=2,
    minutes=3,
    checks=standard(draw, values=5),
    wrong=(Wrong("only-once", "It doubles once.", {"twice(twice(array))": "twice(array)"}),),
    needs=("twice",),
)
"""
)
PAGES = {"twice": (TWICE, TWICE_CHECKS), "again": (AGAIN, AGAIN_CHECKS)}


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """A folder of assignments: one, a1, with the exercises `twice` and `again`."""
    root = tmp_path_factory.mktemp("assignments")
    folder = root / "a1_doubling"
    (folder / "checks").mkdir(parents=True)
    (folder / "assignment.toml").write_text('title = "Doubling"\nexercises = ["twice", "again"]\n')
    (folder / "README.md").write_text("# Doubling\n\nAn opening.\n")
    for name, (master, checks) in PAGES.items():
        (folder / f"{name}.py").write_text(master)
        (folder / "checks" / f"{name}.py").write_text(checks)
    return root


@pytest.fixture(scope="session")
def doubling(course):
    """The assignment a1 of the small course."""
    from kmha.course.exercises import content

    return content.assignments(course)[0]
