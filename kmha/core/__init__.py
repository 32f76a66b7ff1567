"""The mathematics as pure functions of tensors, over `keras.ops` and without weights or state.

Read in this order:

1. `axes`: the letters and the four equations.
2. `projection`: the first and the last equation, from features to heads and back.
3. `attention`: the two equations between them, in `four_steps`. `masks` makes masks for them.
4. `folding`: attention over several axes as attention over a single axis.
5. `planning`: the choice of the fastest path. `blocked` and `one_block`: attention in blocks, on TensorFlow.
   `eager`: TensorFlow outside of a graph.
"""

# Importing Keras registers kmha's layers (see `kmha/__init__.py`), and the layers import the modules of this package.
# So Keras is imported here, before any of these modules.
import keras  # noqa: F401
