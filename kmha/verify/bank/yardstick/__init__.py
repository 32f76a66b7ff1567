"""The published yardstick: the faults that DEForm injects into Hugging Face models, found from the calls of their layers.

DEForm is the `deform` module of the package `defaultplusplus` (Apache 2.0), which belongs to *DEFault++* (arXiv
2604.28118). Its operators follow *Taxonomy of Faults in Attention-Based Neural Networks* (arXiv 2508.04925).

| module | content |
| --- | --- |
| `models` | the models, built from configurations, and the component that each of their modules belongs to |
| `localizing` | the modules of a model that do not compute what they computed before a fault was injected |
| `effects` | what such a module does instead: zeros, scaled weights, another mask, a float16 result, … |
| `caches` | what a model's cached decoding does instead of attending to the whole past |
| `root_causes` | the root cause that an effect in a component means, and a row for each root cause |
| `measure` | inject each fault, name it, and count |
"""  # noqa: E501 - a title
