"""Run an answer, compare its results with the solution's, mark it and name its mistake."""
