"""The assignments: an answer is run, compared with the solution's, and its mistake is named.

In a notebook, `from kmha.course import check` and then `check("a1.cross_kv")`; elsewhere, `kmha course`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmha.course.learner.notebook import check

__all__ = ["check"]


def __getattr__(name: str) -> Any:
    # The process that runs learners' code imports this too, and needs little of the rest.
    if name == "check":
        from kmha.course.learner.notebook import check

        return check
    raise AttributeError(f"module 'kmha.course' has no attribute {name!r}. It has: {', '.join(__all__)}.")
