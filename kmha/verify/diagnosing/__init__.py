"""Run a candidate, compare its numbers with those of every known mistake, and report the diagnosis.

| step | modules |
| --- | --- |
| the entry point | `diagnosis` |
| the candidate: a function, a layer or a block | `candidate`, `function_candidate`, `layer_candidate`, `block_candidate`, `layer_adapters` |
| its calling convention, found by trying | `naming`, `calling`, `conventions`, `convention_search`, `frameworks` |
| its weights | `weights` |
| the calls that tell mistakes apart | `trials`, `block_trials` |
| the distance from right and from mistakes | `matching` |
| what is reported | `report`, `unknown_mistakes`, `reproduction` |
"""  # noqa: E501 - a table
