import ctypes
import mmap
import os
import sys

import pytest

from kmha.sandbox import scratch


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return the folder in which scratch folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _nest(folder, depth):
    here = os.getcwd()
    os.chdir(folder)
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    (open("last", "w")).close()
    os.chdir(here)


def test_what_is_in_it_is_counted(place):
    folder = scratch.make()
    assert not scratch.exceeds_limits(folder)
    (folder / "sub").mkdir()
    for number in range(scratch.FILES - 1):
        (folder / "sub" / str(number)).touch()
    assert not scratch.exceeds_limits(folder)
    (folder / "link").symlink_to(folder)
    assert scratch.exceeds_limits(folder)


def test_sizes_are_summed(place):
    folder = scratch.make()
    for number in range(2):
        with open(folder / str(number), "wb") as file:
            file.truncate(scratch.LARGEST // 2)
    assert not scratch.exceeds_limits(folder)
    (folder / "more").write_text("x")
    assert scratch.exceeds_limits(folder)


def test_folders_nested_too_deep_for_a_path(place, monkeypatch):
    monkeypatch.setattr(scratch, "FILES", 10_000)
    folder = scratch.make()
    _nest(folder, 2_200)
    assert scratch.exceeds_limits(folder)
    scratch.remove(folder)
    assert list(place.iterdir()) == []


def test_removed_whatever_it_contains(place):
    outside = place / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = scratch.make()
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "1").touch()
    (folder / "to-a-folder").symlink_to(outside)
    (folder / "to-nothing").symlink_to("nowhere")
    os.mkfifo(folder / "a" / "pipe")
    (folder / "a" / "b").chmod(0)
    scratch.remove(folder)
    assert [path.name for path in place.iterdir()] == ["outside"]
    assert (outside / "kept").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files are mapped")
@pytest.mark.parametrize("name", ["a", "a\rb", "a\r b c d e /b", "a\nb", "a\x85b"])
@pytest.mark.parametrize("linked", [False, True])
def test_files_that_are_mapped_and_removed_count(place, monkeypatch, name, linked):
    if linked:
        (place / "there").mkdir()
        (place / "link").symlink_to(place / "there")
        monkeypatch.setattr("tempfile.tempdir", str(place / "link"))
    folder = scratch.make()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, size = ctypes.c_void_p, ctypes.c_size_t(mmap.PAGESIZE)
    kept = []
    for number in range(5):
        with open(folder / f"{name}{number}", "wb+") as file:
            file.truncate(mmap.PAGESIZE)
            kept.append(libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0)))
        (folder / f"{name}{number}").unlink()
    assert scratch.exceeds_limits(folder, os.getpid())
    for place_in_memory in kept:
        libc.munmap(ctypes.c_void_p(place_in_memory), size)
    assert not scratch.exceeds_limits(folder, os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files are mapped")
def test_a_list_of_mapped_files_that_is_too_long_is_not_read(place, monkeypatch):
    """A task whose mapped files had long names kept its supervisor reading for four times its time limit."""
    folder = scratch.make()
    assert not scratch.exceeds_limits(folder, os.getpid())
    monkeypatch.setattr(scratch, "MAPS", 100)
    assert scratch.exceeds_limits(folder, os.getpid())


def test_folder_that_is_already_gone(place):
    folder = scratch.make()
    folder.rmdir()
    assert not scratch.exceeds_limits(folder)
    scratch.remove(folder)
    assert list(place.iterdir()) == []
