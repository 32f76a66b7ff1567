"""Diagnose a candidate in a process of its own (`kmha.sandbox`), which alone imports the candidate's module.

The process reports when a call begins and ends, so that a call that takes too long can be stopped. Its result is JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from kmha.bounded_json import from_json
from kmha.cli import common
from kmha.sandbox.control_characters import visible
from kmha.sandbox.errors import SandboxError
from kmha.sandbox.sandbox import CallResult, Sandbox
from kmha.sandbox.worker_api import remote

SLOW = 2.0  # seconds after which a call is reported as slow
IMPORTING = 60.0  # extra seconds for importing the candidate's module, which may import a framework
FIRST = 20.0  # extra seconds for the first call, since the first operation of a framework is slow
SILENCE = 300.0  # seconds without a call after which the process is taken to hang
WHOLE = 1800.0  # seconds that a diagnosis may take at least, whatever the process reports
LONGEST = 2 << 20  # maximum number of characters of a report
LISTED = 2_000  # maximum number of parts of a list in it, and of lines of a text
ALL_LISTED = 10_000  # maximum number of the parts of all lists in it, and of the lines of all texts
FRAMEWORKS = ("numpy", "tensorflow", "keras", "torch", "jax")
REFUSED = (
    "The sandbox refuses to write files, start processes and use the network. `kmha.verify.diagnose` in Python has no "
    "sandbox."
)

Tell = Callable[..., Any]  # called with the name of an event and a text


class TookTooLongError(Exception):
    """A call of the candidate took longer than its time limit."""


class Watch:
    """The clock of the calls that a process reports.

    Attributes:
        call: Call that is running, or "".
        done: Number of calls that ended.
    """

    def __init__(self, limit: float, update: Callable[[str], Any], console: Console) -> None:
        self.limit, self.update, self.console = limit, update, console
        self.call, self.done, self._reported = "", 0, False
        self.whole = max(WHOLE, 30 * limit)
        self._began = self._since = time.monotonic()

    def serve(self, event: str, text: str = "") -> None:
        """Note an event: "begins", with the call's name, "ends", or "stage". The candidate may have sent it.

        Only a text counts: to write thousands of arrays as one takes minutes.
        """
        text = visible(text[:200]) if isinstance(text, str) else ""
        if event == "stage":
            self.update(text[:80])
        elif (event == "ends" and self.call) or (event == "begins" and not self.call):
            self.done += event == "ends"
            self.call = text if event == "begins" else ""
            self._since, self._reported = time.monotonic(), False

    def tick(self) -> None:
        """Report a slow call, and stop a call that takes too long.

        Raises:
            TookTooLongError: The call has taken longer than its time limit.
        """
        elapsed = time.monotonic() - self._since
        if elapsed > self._allowed() or self.elapsed > self.whole:
            raise TookTooLongError
        if self.call and elapsed > SLOW + (IMPORTING / 4 if self.importing else 0) and not self._reported:
            self._reported = True
            self.console.print(
                f"{self.call}: still running. kmha stops it after {self._allowed():g} seconds.", markup=False
            )

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def importing(self) -> bool:
        return self.done == 0 and self.call.startswith("importing ")

    def _allowed(self) -> float:
        if not self.call:
            return SILENCE
        return self.limit + (IMPORTING if self.importing else 0.0 if self.done > 1 else FIRST)


def diagnose(given: dict[str, Any], backend: str, limit: float) -> dict[str, Any]:
    """Diagnose a candidate in a process of its own, or in this process if there can be no other.

    Args:
        given: Arguments of `work`.
        backend: Backend of Keras.
        limit: Time limit of a call, in seconds.

    Returns:
        A dictionary with the `report`, and with what the candidate `printed`.

    Raises:
        click.ClickException: The candidate cannot be loaded or read.
    """
    console = Console(stderr=True, highlight=False)
    with console.status("starting") as status, Sandbox(()) as sandbox:
        watch = Watch(limit, lambda stage: status.update(Text(stage)), console)
        try:
            sandbox.start()
        except SandboxError as error:
            console.print(f"{error} The candidate runs in this process, without a time limit.", markup=False)
            os.environ.update(environment(backend))
            return _outcome(work(given, lambda event, text="": watch.serve(event, text)))
        try:
            ran = sandbox.call(
                "kmha.cli.isolated:work",
                given,
                folder=Path.cwd(),
                environment=environment(backend),
                serve=watch.serve,
                tick=watch.tick,
            )
        except TookTooLongError:
            return {"report": _too_long(given["name"], watch, limit), "printed": ""}
    if ran.error is not None:
        return {"report": _crashed(given["name"], watch, ran), "printed": ran.printed}
    outcome = _outcome(ran.value if isinstance(ran.value, str) else "")
    if "PermissionError" in str(outcome["report"].get("sure")):
        outcome["report"]["advice"] = [REFUSED]
    return {**outcome, "printed": ran.printed}


def environment(backend: str) -> dict[str, str]:
    """Return the environment variables that frameworks read when they are imported.

    A diagnosis makes many small calls. So JAX compiles them without most optimizations, and torch's threads, which wait
    for each other in loops, are one.
    """
    frameworks = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_ENABLE_X64": "1"}
    return {**frameworks, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "OMP_NUM_THREADS": "1"}


def work(given: Mapping[str, Any], tell: Tell | None = None) -> str:
    """Load a candidate and diagnose it, in the process in which this is called. Return the outcome as JSON.

    Args:
        given: The candidate as `name` (MODULE:NAME), and the `options` of `kmha.verify.diagnose`.
        tell: Function that is told what happens, as `Watch.serve`. By default, the process outside the sandbox is told.
    """
    told = tell or _remote
    try:
        told("begins", f"importing {given['name'].partition(':')[0]}")
        candidate = common.load(given["name"])
        told("ends")
        from kmha.verify import diagnose

        found = diagnose(
            candidate,
            source=given["name"],
            progress=lambda stage: told("stage", stage),
            on_call=lambda call: told("begins", call) if call else told("ends"),
            **given["options"],
        )
    except click.ClickException as error:
        return json.dumps({"error": error.format_message()})
    except ValueError as error:
        return json.dumps({"error": str(error)})
    imported = [name for name in FRAMEWORKS if name in sys.modules]
    return json.dumps({"report": {**found.to_dict(), "imported": imported}})


def _remote(event: str, text: str = "") -> None:
    remote(event)(text)


def _outcome(text: str) -> dict[str, Any]:
    """Return the report in the outcome of `work`. Untrusted code may have written the outcome."""
    from kmha.verify.diagnosing import report
    from kmha.verify.diagnosing.plain import clean, plain
    from kmha.verify.diagnosing.verdicts import UNJUDGED

    try:
        outcome = plain(from_json(text)) if len(text) <= LONGEST else {}
        outcome = {} if _longest(outcome) > LISTED or _parts(outcome) > ALL_LISTED else outcome
    except (ValueError, RecursionError):
        outcome = {}
    found = outcome.get("report") if isinstance(outcome, dict) else None
    usual = {**report.without_results("", UNJUDGED, "", []), "imported": []}
    # A text instead of a list would be printed letter by letter.
    if isinstance(found, dict) and all(isinstance(found.get(name, []), list) for name in usual if usual[name] == []):
        return {"report": found, "printed": ""}
    error = outcome.get("error") if isinstance(outcome, dict) else None
    says = clean(str(error or "the candidate's process sent something other than a report, or one that is too long."))
    raise NotJudgedError(f"{says} {REFUSED}" if "PermissionError" in says else says)


def _longest(value: Any) -> int:
    """Return the length of the longest list or dict in a value, or the number of line breaks in its longest text."""
    if isinstance(value, str):
        return value.count("\n")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max([len(inner), *map(_longest, inner)])


def _parts(value: Any) -> int:
    """Return the number of parts of all lists and dicts in a value, and of the line breaks in all its texts."""
    if isinstance(value, str):
        return value.count("\n")
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return len(inner) + sum(map(_parts, inner))


class NotJudgedError(click.ClickException):
    """A candidate that cannot be loaded or read."""

    exit_code = 3


def _too_long(name: str, watch: Watch, limit: float) -> dict[str, Any]:
    from kmha.verify.diagnosing import report
    from kmha.verify.diagnosing.verdicts import UNJUDGED

    if watch.elapsed > watch.whole:
        advice = "`kmha.verify.diagnose` in Python has no such limit, and no sandbox."
        sure = f"the diagnosis took longer than {watch.whole:g} seconds."
    elif watch.importing:
        advice = "Put what runs for long below `if __name__ == '__main__':`."
        sure = f"{watch.call} took longer than {limit + IMPORTING:g} seconds."
    else:
        advice = "If it is only slow, give it more time, with --time-limit SECONDS."
        sure = f"the call {watch.call!r} took longer than {limit:g} seconds. {max(watch.done - 1, 0)} calls ran before."
    return report.without_results(_short(name), UNJUDGED, sure, [advice])


def _crashed(name: str, watch: Watch, ran: CallResult) -> dict[str, Any]:
    from kmha.verify.diagnosing import report
    from kmha.verify.diagnosing.verdicts import RAISES

    error = ran.error or {}
    says = f"{error['kind']}: {error['says']}" if error.get("kind") else str(error.get("says"))
    where = f" in the call {watch.call!r}" if watch.call else ""
    return report.without_results(_short(name), RAISES, f"{says}{where}.", [])


def _short(name: str) -> str:
    return name.partition(":")[2]
