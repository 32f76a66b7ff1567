"""The parts of `kmha.verify.compare`: the cases, their expected results, the runs in each mode and the report."""
