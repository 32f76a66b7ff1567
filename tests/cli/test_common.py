import importlib.util
import os

import pytest
from click import ClickException

from kmha.cli import common


@pytest.mark.parametrize(
    ("backend", "command"), [("tensorflow", "kmha"), ("jax", "kmha[jax]"), ("torch", "kmha[torch]")]
)
def test_a_backend_that_is_missing(backend, command, monkeypatch):
    before = dict(os.environ)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClickException) as error:
        common.choose_backend(backend)
    assert error.value.message == f"the backend {backend} is not installed. Run: pip install '{command}'"
    assert os.environ == before


def test_what_the_backend_writes_on_its_own_is_dropped(capfd):
    with common._without_notes():
        os.write(2, b"a note about the machine\n")
    os.write(2, b"an error\n")
    assert capfd.readouterr().err == "an error\n"
