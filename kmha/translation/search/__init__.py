"""The search methods, which find a translation that a Transformer considers probable, or draw one at random.

Each method is one file in this folder with a subclass of `SearchMethod`; the class holds the method's name, its options
and their defaults. Adding a file adds the method to `Translator.translate`, its options to `kmha translate` and
`kmha evaluate`, and those that can be trained for to the settings. The files import TensorFlow when they search, not
before, so that commands start quickly.

A search is made with a model and called with source ids. It stops at the end token or at the sentence's limit, and it
compiles one loop for every batch size and length, in which a step projects one position (`kmha.layers.cache`).
"""

import importlib
import pkgutil

from kmha.translation.search.beam import Beam
from kmha.translation.search.greedy import Greedy
from kmha.translation.search.method import METHODS, Hypothesis, SearchMethod
from kmha.translation.search.sampling import Sampling

__all__ = ["DEFAULT", "METHODS", "Beam", "Greedy", "Hypothesis", "Sampling", "SearchMethod"]

DEFAULT = Beam.name

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
