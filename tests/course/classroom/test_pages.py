import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2")

from kmha.course.classroom import grading, pages
from kmha.course.classroom.submissions import collect

EVIL = "<script>alert(1)</script>\"'&"
CODE = f'''print({EVIL!r})
def twice(array):
    """{EVIL.replace('"', "")}</pre>"""
    raise ValueError({EVIL!r})
'''


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def found(tmp_path_factory, doubling):
    folder = tmp_path_factory.mktemp("class")
    for id, code in (
        ("<script>alert(2)<", f"{CODE}\n# \x1b[2J \u202e"),
        ("anna", doubling.items[0].master.solution),
        ("bob", ""),
    ):
        (folder / "in" / id / "a1").mkdir(parents=True)
        (folder / "in" / id / "a1" / "twice.py").write_text(code)
    (folder / "in" / "anna" / "<img src=x onerror=alert(3)>.ipynb").write_text("")
    handed = collect(folder / "in").students
    records = grading.grade(handed, grading.GradingRun((doubling,), folder / "results", 5))
    return dict(pages.pages(records, [doubling], grading.file_names(records), 5, {"<b>.odt": "a reason"}))


def test_page_for_each_student_and_one_for_the_class(found):
    first, *rest = found
    assert first == "index.html"
    assert [name for name in rest if not name.startswith("students/_script")] == [
        "students/anna.html",
        "students/bob.html",
    ]


def test_untrusted_text_is_escaped(found):
    for text in found.values():
        tags = _Tags()
        tags.feed(text)
        assert "script" not in {tag for tag, _ in tags.found}
        assert "img" not in {tag for tag, _ in tags.found}
        assert not [name for _, attributes in tags.found for name in attributes if name.startswith("on")]
    student = next(text for name, text in found.items() if name.startswith("students/_script"))
    assert student.count("&lt;script&gt;alert(1)") >= 3  # printed, raised, and in the code
    assert "# \\x1b[2J \\u202e" in student  # what it would do to a terminal, and to the order of letters
    assert "&lt;img src=x onerror=alert(3)&gt;" in found["students/anna.html"]


def test_policy_allows_only_our_style(found):
    for text in found.values():
        style = re.search(r"<style>(.*)</style>", text, re.S)[1]
        hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
        assert policy.startswith(f"default-src 'none'; style-src 'sha256-{hashed}';")


def test_links_lead_to_pages(found):
    tags = _Tags()
    tags.feed(found["index.html"])
    assert {attributes["href"] for tag, attributes in tags.found if tag == "a"} == set(found) - {"index.html"}


def test_content_of_the_pages(found, doubling):
    text = found["students/anna.html"]
    assert "32 of 37" in text
    assert "Doubling" in text
    assert "every element of the result is right" in text
    assert "factor_of_the_solution" in text  # it is the student's answer
    assert "it was not handed in." in text
    index = found["index.html"]
    assert "33 %<" in index
    assert "a1.twice" in index
