"""Measurements, side by side in one run: `kmha.MultiHeadAttention` against its peers, in time and in memory.

Every contender gets the same numbers and has to give the same results, or nothing is measured. `cases` says what is
measured, `contenders` (and `torch_contenders`) who runs, `timing` and `memory` how, `machine` where; `run` puts them
together, `report` has the ratios, `table` and `plot` show them. All of it is in float32, on the processor.
"""
