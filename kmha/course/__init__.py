"""The engine of the assignments: run an answer, compare its results with the solution's, and name its mistake.

In a notebook, call `check("a1.cross_kv")` after `from kmha.course import check`. Elsewhere, use `kmha course`.
"""

from typing import TYPE_CHECKING

from kmha import lazy

if TYPE_CHECKING:
    from kmha.course.learner.notebook import check

__all__ = ["check"]
# Lazy, because every room of the course imports this file, and most of them need no notebook.
lazy.attach(__name__, {"check": "learner.notebook"})
