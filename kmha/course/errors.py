"""The base class of the course's errors."""


class CourseError(Exception):
    """An error that the user can fix. Its message says in one line what is wrong and what to do."""
