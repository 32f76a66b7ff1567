"""An exercise, its checks and its wrong answers; and the assignments on disk."""

from kmha.course.exercises.exercise import Check, Exercise, Wrong, sizes, standard

__all__ = ["Check", "Exercise", "Wrong", "sizes", "standard"]
