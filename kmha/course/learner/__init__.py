"""The learner's side: the workspace, the checks, the progress and the notebook's `check`."""
