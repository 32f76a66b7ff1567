"""Run an answer, compare its results with the solution's, mark it, and name its mistake.

The names below are for the checks of an exercise (`assignments/*/checks`).
"""

from kmha.course.judging.bug_hunt import NOT_FIXED, bank_without, mistake_is_named
from kmha.course.judging.comparing import same
from kmha.course.judging.new_weights import right_weights, with_wide_kernel

__all__ = ["NOT_FIXED", "bank_without", "mistake_is_named", "right_weights", "same", "with_wide_kernel"]
