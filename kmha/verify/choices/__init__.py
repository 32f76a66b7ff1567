"""Design choices: ways to write attention and blocks that differ from the paper and are no mistakes.

A choice changes steps of a chain, as a mistake does. The diagnosis looks for the choices of a candidate, states them
("pre-norm with GELU: taken as intended"), and compares the candidate with the reference that makes the same choices.

To add a choice, write an entry into the module of its chain, such as

    register("pre-norm", "norm place", "pre-norm", norm_place=lambda state, right: "before")

>>> from kmha.verify.choices import CHOICES
>>> CHOICES["pre-norm"].chains()
('encoder', 'decoder')
"""

from kmha.verify.choices import attention, blocks, embeddings  # noqa: F401 - each adds its choices
from kmha.verify.choices.entry import CHOICES, Choice, checked, combinations, makes, register

__all__ = ["CHOICES", "Choice", "checked", "combinations", "makes", "register"]
