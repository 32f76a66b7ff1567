import pytest

from kmha.course.exercises.exercise import Exercise
from kmha.course.judging.policy import broken


def _spec(**more):
    return Exercise("title", "question", 1, 5, (), (), **more)


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np\nimport math, os.path\nfrom collections import abc\n",
        "from numpy.lib import stride_tricks\n",
        "def f(:\n",
        "\0",
        "MultiHeadAttention = 3\n",
        "(" * 5000,
    ],
)
def test_what_is_allowed_or_left_to_who_loads_it(code):
    assert broken(code, _spec(forbids=("MultiHeadAttention",))) is None


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import torch\n", "it imports torch in line 1: this exercise is to be written with NumPy."),
        (
            "\nfrom kmha.core import attention\n",
            "it imports kmha in line 2: this exercise is to be written with NumPy.",
        ),
        ("def f():\n    import keras.ops\n", "it imports keras in line 2: this exercise is to be written with NumPy."),
        ("from . import other\n", "it imports "),
        ("layer = keras.layers.MultiHeadAttention(2, 3)\n", "it uses `MultiHeadAttention` in line 1: that is what"),
        ("f = MultiHeadAttention\n", "it uses `MultiHeadAttention` in line 1"),
        ("from os import MultiHeadAttention\n", "it uses `MultiHeadAttention` in line 1"),
    ],
)
def test_what_is_not(code, says):
    assert broken(code, _spec(forbids=("MultiHeadAttention",))).startswith(says)


def test_what_the_exercise_uses_and_needs():
    code = "import keras, tensorflow\nfrom twice import twice\n"
    assert broken(code, _spec(uses=("numpy", "keras", "tensorflow"), needs=("twice",))) is None
    assert broken("import torch", _spec(uses=("keras", "tensorflow"))).endswith("written with Keras and TensorFlow.")
