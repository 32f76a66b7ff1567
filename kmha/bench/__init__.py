"""Measure time and memory of `kmha.MultiHeadAttention` and of whole models beside their peers, in one process.

Only torch's whole model has a process of its own, because torch's optimizers and TensorFlow cannot share a process.

All contenders get the same inputs. They are only measured if they give the same results. Everything runs in float32 on
the CPU. `cases` lists what can be measured, `attention_contenders` and `models` build the contenders, and `measuring`
runs them. `collectives` and `scaling` measure no time: they count what several devices exchange.
"""
