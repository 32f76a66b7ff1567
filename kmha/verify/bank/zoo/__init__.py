"""The zoo: attention in public packages, all of it right, and mutants of it, diagnosed as a user would diagnose them.

| module | content |
| --- | --- |
| `entry` | one entry of the manifest |
| `manifest` | all entries, by package, and which packages are not installed |
| `operators` | edits of source code, each with the mistakes that it makes |
| `mutants` | apply an operator to an entry's source, in memory |
| `replay` | repeat the calls of a diagnosis with a mutant, to see whether it computes something else |
| `diagnoses` | diagnose entries and mutants, in a worker process |
| `workers` | worker processes, which may crash or hang |
| `measure` | draw mutants, collect results that resume, and count |
"""
