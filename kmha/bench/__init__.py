"""Measure time and memory of `kmha.MultiHeadAttention` and of whole models beside their peers, in one process.

All contenders get the same inputs. They are only measured if they give the same results. Everything runs in float32 on
the CPU. `cases` lists what can be measured, `attention_contenders` and `models` build the contenders, and `measuring`
runs them.
"""
