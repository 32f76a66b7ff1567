"""The teacher's side: submissions, grading, grades, pages, the release and the check of the exercises themselves."""
