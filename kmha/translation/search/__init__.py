"""The search methods: what a Transformer says for a sentence that is most probable, or drawn at random.

Each is made with a model and called with source ids; all stop at the end token or at the sentence's limit, and all
compile one loop for every batch size and length, in which a step costs one position's projections
(`kmha.layers.cache`).
"""

from kmha.translation.beam import Beam
from kmha.translation.decoding import Hypothesis
from kmha.translation.greedy import Greedy
from kmha.translation.sampling import Sampling

__all__ = ["Beam", "Greedy", "Hypothesis", "Sampling"]
