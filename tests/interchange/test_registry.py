import subprocess
import sys

import pytest

from kmha.interchange import LAYOUTS, Entry, LayoutError, convert
from kmha.interchange.registry import find


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_tables_are_well_formed(layout):
    assert find(layout.name) is layout
    assert layout.says
    assert not layout.says.endswith(".")
    assert layout.entries
    for entry in layout.entries:
        assert entry.pattern
        assert entry.paths.letters == set(entry.indices) | ({"P"} if entry.packed else set())
        assert bool(entry.heads) == (entry.heads != "" and entry.heads in entry.axes)
    names = [item.name for item in layout.items]
    assert len(set(names)) == len(names)


def test_every_layout_is_an_entry_table():
    assert len(LAYOUTS) >= 20
    assert all(isinstance(entry, Entry) for layout in LAYOUTS.values() for entry in layout.entries)


def test_a_module_in_the_folder_is_all_that_a_new_layout_needs(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from kmha.interchange.layout import Entry, Layout\n"
        "LAYOUTS = (Layout('mine', 'attention of a test', (Entry('w', 'query/kernel', 'I H O -> H I O'),)),)"
    )
    code = (
        "from kmha.interchange import layouts\n"
        f"layouts.__path__.append({str(tmp_path)!r})\n"
        "from kmha.cli import main\n"
        "main(['convert', '--list'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if " mine " in line and "attention of a test" in line]


def test_a_name_that_is_nearly_one():
    with pytest.raises(LayoutError, match=r"no layout 'torchh'. Is it 'torch'\? There are: ours, ours-enc"):
        convert({}, "torchh", "ours")


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import kmha.interchange", "numpy keras tensorflow torch jax"),
        ("from kmha.interchange import LAYOUTS, convert, recognize", "keras tensorflow torch jax"),
    ],
)
def test_no_framework_is_needed(statement, heavy):
    code = f"{statement}\nimport sys\nfound = set({heavy.split()}) & set(sys.modules)\nsys.exit(' '.join(found) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
