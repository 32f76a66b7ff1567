"""The search methods, which find a translation that a Transformer considers probable, or draw one at random.

Each method is a file in this folder with a subclass of `SearchMethod`, which declares the method's name, options and
defaults. Adding a file adds the method to `Translator.translate`, and the method's options to `kmha translate` and
`kmha evaluate`. Options that a model can be trained for also enter the settings. The files import TensorFlow only when
they search, so that commands start quickly.

A search is made with a model and called with source ids. It stops at the end token or at the sentence's limit. It
compiles one loop for all batch sizes and lengths. A step of the loop projects one position (`kmha.layers.cache`).
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
