"""The zoo: attention in public packages, all of it right, and mutants of it, diagnosed as a user would diagnose them.

| module | content |
| --- | --- |
| `entry` | one entry of the manifest |
| `manifest` | all entries, by package, and which packages are not installed |
| `operators` | edits of source code, each with the mistakes that it makes |
| `mutants` | apply an operator to an entry's source, in memory |
| `measure` | diagnose entries and mutants, and count |
"""
