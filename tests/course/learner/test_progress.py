import json
import re

import pytest

from kmha.course.exercises.handout import write_state
from kmha.course.learner.progress import Progress, Record, WorkspaceError


@pytest.fixture
def progress(tmp_path):
    found = Progress(tmp_path / "state.json")
    write_state(found.path, "files")
    return found


def test_updates_are_kept_in_order(progress):
    assert progress.records() == {}
    assert progress.record("a1.f") == Record()
    progress.update("a1.f", hints=2)
    progress.update("a1.g", solution=True)
    progress.update("a1.f", points=3)
    again = Progress(progress.path)
    assert again.records() == {"a1.g": Record(solution=True), "a1.f": Record(points=3, hints=2)}
    assert [*again.records()] == ["a1.g", "a1.f"]
    assert again.form() == "files"


def test_the_best_of_all_attempts_counts(progress):
    for points, passed in ((3, False), (10, True), (0, False)):
        progress.add_attempt("a1.f", points, passed)
    assert progress.record("a1.f") == Record(attempts=3, points=10, passed=True)


def test_first_time(progress):
    assert [progress.first_time(name) for name in ("one", "two", "one", "two")] == [True, True, False, False]


def test_unknown_fields_are_ignored(progress):
    progress.path.write_text(json.dumps({"form": "files", "exercises": {"a1.f": {"points": 2, "stars": 5}}}))
    assert progress.record("a1.f") == Record(points=2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\xff",
        '{"exercises": []}',
        '{"exercises": {"a1.f": 3}}',
        '{"exercises": {"a1.f": {"points": "3"}}}',
        '{"exercises": {"a1.f": {"passed": 1}}}',
        '{"exercises": {"a1.f": {"points": true}}}',
        '{"said": "one"}',
        "[" * 100_000,
        '{"exercises": {"a1.f": {"hints": -7}}}',
        '{"exercises": {"a1.f": {"attempts": %s}}}' % ("9" * 4_300),
        '{"exercises": {"a1.f": {}, "\\u001b[31mred": 3}}',
    ],
)
def test_unreadable_file_is_not_overwritten(progress, text):
    progress.path.write_text(text, encoding="latin-1")
    with pytest.raises(WorkspaceError, match=f"{re.escape(str(progress.path))} cannot be read: .* Rename it") as raised:
        progress.add_attempt("a1.f", 3, False)
    assert str(raised.value).isprintable()
    assert progress.path.read_text(encoding="latin-1") == text


def test_link_is_not_followed(progress, tmp_path):
    progress.path.rename(tmp_path / "settings.json")
    progress.path.symlink_to(tmp_path / "settings.json")
    before = (tmp_path / "settings.json").read_text()
    with pytest.raises(WorkspaceError, match="it is a link"):
        progress.add_attempt("a1.f", 3, False)
    assert (tmp_path / "settings.json").read_text() == before
