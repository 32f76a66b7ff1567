"""The mathematics: pure functions of tensors, over `keras.ops`; no weights, no state.

`axes` has the letters and the four equations, `projection` the first and the last of them, `attention` the two
between, `masks` who may attend to whom, `folding` how attention over several axes becomes attention over one.

What makes it fast stands apart: `planning` chooses between the ways to compute attention; `blocked` has those that keep
the scores, or never have all of them, on TensorFlow (with `looped`, `rows` and `blocks`, which no other file needs).
"""

# Importing Keras registers our layers (see `kmha/__init__.py`), which need these modules whole: so it comes first here,
# before any of them has begun.
import keras  # noqa: F401
