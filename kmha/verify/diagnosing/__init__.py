"""What `kmha.verify.diagnose` is made of: a candidate is called, and its numbers are matched with those of mistakes.

| | modules |
| --- | --- |
| the right computation, step by step, which a mistake changes | `chain`, `chain_blocks`, `chain_embedding` |
| the calls that separate | `trials` and what it is drawn by, `trials_*` |
| the candidate: a function, a layer, or a block | `subjects`, `subject_functions`, `subject_layers`, `subject_blocks` |
| how it is called | `naming`, `calling`, `conventions`, `settling`, `frameworks` |
| its weights | `held`, `built`, `forms`, `layer_kinds`, `layer_sizes`, `block_parts` |
| how far its answers are from what is right, or from mistakes | `measuring`, `matching` |
| what is said of it | `evidence`, `unexplained`, `patterns`, `reproduction` |
| whether the bank's mistakes are told apart, and found | `trying`, `banking`, `rightly` |

The mistakes themselves are in `kmha.verify.mistakes`.
"""
