"""The learner's side: their folder, checks, progress, and `check` in notebooks."""
