"""The assignments: an answer is run, compared with the solution's, and its mistake is named.

In a notebook, `from kmha.course import check` and then `check("a1.cross_kv")`; elsewhere, `kmha course`.
"""

from typing import TYPE_CHECKING

from kmha import lazy

if TYPE_CHECKING:
    from kmha.course.learner.notebook import check

__all__ = ["check"]
# Lazy, because every room of the course imports this file, and most of them need no notebook.
__getattr__, __dir__ = lazy.attributes(__name__, {"check": "learner.notebook"})
