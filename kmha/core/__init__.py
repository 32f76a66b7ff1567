"""The mathematics: pure functions of tensors over `keras.ops`, without weights and without state.

Read in this order:

1. `axes`: the letters and the four equations.
2. `projection`: the first and the last equation, from features to heads and back.
3. `attention`: the two equations between, in `four_steps`; `masks` says who may attend to whom.
4. `folding`: attention over several axes as attention over one.
5. `planning`: the choice of the fastest path; `blocked` and `block`: attention in blocks, on TensorFlow.
"""

# Importing Keras registers kmha's layers (see `kmha/__init__.py`), and these import the modules of this package. So
# Keras is imported here, before the first of those modules has begun.
import keras  # noqa: F401
