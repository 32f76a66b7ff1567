import pytest

from kmha.course.classroom import release, submissions
from kmha.course.errors import CourseError
from kmha.course.exercises import content, extras, master
from kmha.course.judging import running
from kmha.course.learner import progress
from kmha.sandbox import sandbox


@pytest.mark.parametrize(
    ("error", "usual"),
    [
        (content.UnknownExerciseError, ValueError),
        (extras.MissingPackageError, ImportError),
        (master.MasterError, ValueError),
        (progress.WorkspaceError, ValueError),
        (release.ReleaseError, ValueError),
        (running.BrokenExerciseError, RuntimeError),
        (submissions.SubmissionsError, ValueError),
    ],
)
def test_what_can_be_mended_is_of_one_kind_and_of_its_usual_one(error, usual):
    assert str(error("says so")) == "says so"
    assert issubclass(error, CourseError)
    assert issubclass(error, usual)


def test_what_is_stopped_on_purpose_is_not():
    assert not issubclass(sandbox.StoppedError, CourseError)
