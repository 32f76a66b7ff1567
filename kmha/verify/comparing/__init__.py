"""The parts of `kmha.verify.compare`: cases, their expected results, the run in each mode and the report."""
