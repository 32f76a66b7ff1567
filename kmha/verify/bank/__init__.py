"""Measure how well the bank of mistakes and the diagnosis work."""
