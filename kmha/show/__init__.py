"""Attention as pictures: in a figure of matplotlib (`pip install 'kmha[plot]'`), or as text in the terminal.

One head is a `heatmap`, all heads of a layer are `heads`, all layers of a model are `layers`; `save` writes what they
return as PNG or SVG; `terminal` needs no matplotlib. Queries are always the rows (T), keys the columns (S).

`scores` reads what is given and says what is wrong with it, `tokens` turns tokens into labels, `layout` decides where
everything stands, `drawing` draws it (the one file that imports matplotlib), and `pictures` puts them together.

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

from kmha.show.pictures import heads, heatmap, layers, save
from kmha.show.text import terminal

__all__ = ["heads", "heatmap", "layers", "save", "terminal"]
