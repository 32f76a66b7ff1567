"""Pictures of attention as matplotlib figures (`pip install 'kmha[plot]'`) or as text in the terminal.

`heatmap` shows one head, `heads` shows all heads of a layer, and `layers` shows all layers of a model. Queries are
always rows (T), and keys are columns (S). `alignment` draws scores as lines between tokens. `save` writes figures as
PNG or SVG. `terminal` does not need matplotlib.
`steps` shows what one head of a layer computes, step by step, with the numbers and shapes.
`positions` shows a positional encoding, and `scaling` shows why the logits are divided by the square root of d_k.
`capture` records the scores of any Keras model, and `AttentionProbe` those of the same inputs during training.
`analytics` tells in numbers what each head attends to.
`page` writes one HTML file in which to choose layers and heads, and to walk through the steps of a layer
(`Calculation`).

>>> import kmha.show
>>> figure = kmha.show.heatmap([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], rows=["a", "dog"], columns=["ein", "Hund", "."])
>>> print(kmha.show.terminal([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], ["a", "dog"], ["ein", "Hund", "."], 40, False))
    ein  Hund .
  a ████ ···· ····
dog ░░░░ ░░░░ ▒▒▒▒
<BLANKLINE>
rows: query tokens  columns: key tokens
0 ·░▒▓█ 0.9
"""

from typing import TYPE_CHECKING

from kmha import lazy
from kmha.show.alignments import alignment
from kmha.show.calculation import Calculation
from kmha.show.head_analytics import Analytics, HeadStatistics, analytics
from kmha.show.html_page import Page, page
from kmha.show.logit_scaling import scaling
from kmha.show.pictures import heads, heatmap, layers, save
from kmha.show.positional_encodings import positions
from kmha.show.recording import Captured, capture
from kmha.show.text import terminal
from kmha.show.worked_steps import steps

if TYPE_CHECKING:
    from kmha.show.attention_probe import AttentionProbe

__all__ = [
    "Analytics",
    "AttentionProbe",
    "Calculation",
    "Captured",
    "HeadStatistics",
    "Page",
    "alignment",
    "analytics",
    "capture",
    "heads",
    "heatmap",
    "layers",
    "page",
    "positions",
    "save",
    "scaling",
    "steps",
    "terminal",
]
lazy.attach(__name__, {"AttentionProbe": "attention_probe"})  # Keras callbacks need Keras
