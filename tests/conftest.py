"""Settings that must stand before Keras is imported, and that no test module should have to repeat."""

import contextlib
import functools
import gc
import os
from collections import Counter
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("JAX_ENABLE_X64", "1")
# Otherwise torch's threads wait for each other in loops: beside another process, most of a test's time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
# In pytest's cache: tests that have been skipped since it was cleared, and have not passed since, and skipped files.
SKIPPED = "kmha/skipped"


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "run only what earlier runs skipped, for instance because a library was not installed then"
    parser.addoption("--skipped", action="store_true", help=help_text)


class _Recorder:
    """Keeps in pytest's cache which tests and files are skipped."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.names = {*config.cache.get(SKIPPED, [])}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.names.add(report.nodeid)
        elif report.passed and report.when == "call":
            self.names.discard(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.names.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.config.cache.set(SKIPPED, sorted(self.names))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist report to the process that started them
        config.pluginmanager.register(_Recorder(config))


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks as slow what is left out of a sample, and skips `tensorflow` where Keras computes with another backend."""
    cases: Counter[str] = Counter()
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            name = item.nodeid.partition("[")[0]
            if cases[name] % sampled.args[0]:
                item.add_marker("slow")
            cases[name] += 1
    if config.getoption("--skipped"):
        names = set(config.cache.get(SKIPPED, []))
        chosen = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & names]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
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
    """Collected after every file; after every test it would take as long as the tests.

    What is left is not looked at again. Keras collects all garbage whenever an attribute of a layer is deleted, which
    takes a second in a process that has imported TensorFlow and run a few hundred tests.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def browser():
    """Chromium, without a window."""
    api = pytest.importorskip("playwright.sync_api")
    if not os.path.exists(CHROMIUM):
        pytest.skip("needs Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """A function that opens a page. At the end, no request has left it, and it has printed nothing."""
    contexts, printed, requests = [], [], []

    def open_(path, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        found = context.new_page()
        found.on("console", lambda message: printed.append(message.text))
        found.on("pageerror", lambda error: printed.append(str(error)))
        found.on("request", lambda request: requests.append(request.url))
        found.goto(path.as_uri())
        return found

    yield open_
    titles = [context.pages[0].title() for context in contexts]
    for context in contexts:
        context.close()
    assert printed == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert "hit" not in titles  # which scripts among tokens would write


@pytest.fixture
def serious_violations():
    """A function that returns what axe-core finds serious in a page whose context bypasses its policy on scripts."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def find(page):
        found = axe.run(page).response["violations"]
        return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]

    return find


@pytest.fixture(scope="session")
def sandbox_of():
    """A function that returns the sandbox with these libraries; each starts once, which with Keras takes seconds."""
    from kmha.sandbox.sandbox import Sandbox

    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda uses: stack.enter_context(Sandbox(uses)))


@pytest.fixture(scope="session")
def sandbox(sandbox_of):
    """With NumPy."""
    return sandbox_of(("numpy",))
