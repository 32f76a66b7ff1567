"""What all errors have in common that whoever works with the course can mend."""


class CourseError(Exception):
    """Its message says in a line what is wrong, and what to do."""
