"""An exercise, its checks and its wrong answers; and the assignments on disk."""

from kmha.course.exercises.exercise import EXACT, Check, Exercise, Wrong, sizes, standard

__all__ = ["EXACT", "Check", "Exercise", "Wrong", "sizes", "standard"]
