"""The parts of `kmha.verify.probe`: reading a call's inputs, calling, trying properties, and the table of results."""
