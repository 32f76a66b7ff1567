"""Measure time and memory of `kmha.MultiHeadAttention` and of whole models beside their peers, in one process.

All contenders get the same inputs and must give the same results, or nothing is measured. Everything runs in float32 on
the CPU. `cases` lists what can be measured, `attention_contenders` and `models` build the contenders, and `measuring`
runs them.
"""
