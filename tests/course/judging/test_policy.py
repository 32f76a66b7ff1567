import pytest

from kmha.course.exercises.exercise import Exercise
from kmha.course.judging.policy import violation


def _spec(**more):
    return Exercise("title", "question", 1, 5, (), (), **more)


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np\nimport math, os.path\nfrom collections import abc\n",
        "from numpy.lib import stride_tricks\n",
        "def f(:\n",
        "\0",
        "layer = keras.layers.MultiHeadAttention(2, 3)\n",  # it does not exist where the code runs
        "(" * 5000,
    ],
)
def test_no_violation(code):
    assert violation(code, _spec()) is None


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import torch\n", "you import torch in line 1. Write this exercise with NumPy."),
        (
            "\nfrom kmha.core import attention\n",
            "you import kmha in line 2. Write this exercise with NumPy.",
        ),
        ("def f():\n    import keras.ops\n", "you import keras in line 2. Write this exercise with NumPy."),
        ("from . import other\n", "you import "),
    ],
)
def test_violations(code, says):
    assert violation(code, _spec()).startswith(says)


def test_libraries_and_exercises_that_are_allowed():
    code = "import keras, tensorflow\nfrom twice import twice\n"
    assert violation(code, _spec(uses=("numpy", "keras", "tensorflow"), needs=("twice",))) is None
    assert violation("import torch", _spec(uses=("keras", "tensorflow"))).endswith(
        "Write this exercise with Keras and TensorFlow."
    )
