"""Training on several devices with `keras.distribution`, on JAX.

`head_parallel(mesh)` says which part of each weight of kmha's layers a device holds.
"""

from kmha.distribution.layouts import head_parallel

__all__ = ["head_parallel"]
