"""The layer that `kmha.MultiHeadAttention` replaces, also where `kmha.patch_keras` puts the latter under its name."""

import keras

# Keras' name says something else within `kmha.patch_keras`, which imports this module first.
BUILTIN = keras.layers.MultiHeadAttention
