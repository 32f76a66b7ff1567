"""The teacher's side: verify the exercises, release them to a class, and grade the submissions."""
