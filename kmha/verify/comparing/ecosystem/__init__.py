"""The table "works with": features of Keras and of its backends, tried with the built-in layer and with kmha's.

To add a row, write a function with `@row(...)` in one of the modules, and name it in `ROWS` at the module's end:

- `models`: ways to build a model, its inputs and its masks.
- `training`: training, optimizers, dtypes, quantization.
- `programs`: derivatives, transformations, devices, subclasses, KerasHub.
- `saving`: files, configurations, copies.
- `exporting`: exported models in their runtimes.
"""
