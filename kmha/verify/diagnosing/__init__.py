"""Run a candidate, compare its numbers with the numbers of every known mistake, and report the diagnosis.

| step | modules |
| --- | --- |
| the entry point | `diagnosis` |
| the candidate: a function, a layer or a block | `candidate`, `function_candidate`, `layer_candidate`, `block_candidate` |
| the parts of a whole model | `whole_model` |
| classes of Keras, torch and JAX packages | `layer_adapters`, `jax_adapters`, `attributes` |
| the candidate's calling convention, found by trying | `naming`, `calling`, `conventions`, `convention_search`, `mask_search`, `choice_search`, `trying`, `frameworks`, `documentation` |
| the candidate's weights | `weights` |
| the calls that tell mistakes apart | `trials`, `block_trials` |
| the distances from the right results and from those of mistakes | `matching` |
| the report as plain data | `report`, `coverage`, `difference`, `unknown_mistakes`, `reproduction`, `seeded_case` |
| its text | `rendering` |
"""  # noqa: E501 - a table
