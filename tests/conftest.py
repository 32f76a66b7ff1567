"""Settings that must stand before Keras is imported, and that no test module should have to repeat."""

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("JAX_ENABLE_X64", "1")

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is marked `tensorflow` where Keras computes with another backend."""
    backend = os.environ["KERAS_BACKEND"]
    if backend != "tensorflow":
        for item in items:
            if item.get_closest_marker("tensorflow"):
                item.add_marker(pytest.mark.skip(reason=f"needs TensorFlow, and Keras computes with {backend}"))


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from the same random state, and leaves no Keras state to the next."""
    import sys

    if "keras" in sys.modules:
        import keras

        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(20171207)


@pytest.fixture(autouse=True, scope="module")
def _garbage() -> Iterator[None]:
    """Collected after every file; after every test it would take as long as the tests."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def sandbox():
    """With NumPy."""
    from kmha.sandbox.sandbox import Sandbox

    with Sandbox() as found:
        yield found
