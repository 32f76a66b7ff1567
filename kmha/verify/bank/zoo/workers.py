"""Worker processes of the measurement, one per framework at a time. A crash or a hang ends only its own process.

Torch and TensorFlow do not share a process, and each is imported only once.
"""

import dataclasses
import multiprocessing
import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

from kmha.verify.bank.zoo import diagnoses

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "HF_HUB_OFFLINE": "1",
    "KERAS_BACKEND": "tensorflow",
}
# Frameworks whose code can share a process.
SHARED = {"keras": "tensorflow", "numpy": "torch"}
# Outcomes of which the reason may be another package in the same process.
AGAIN = (diagnoses.ACCUSED, diagnoses.WRONG_ID, diagnoses.CRASHED, diagnoses.REFUSED)
PATIENCE = 4  # a worker is killed after this many times the limit of one diagnosis, and this many seconds
IMPORTS = 120.0  # seconds that importing packages may take


@dataclasses.dataclass
class _Worker:
    """A process that works on the tasks of one framework."""

    process: Any
    connection: Connection
    tasks: list[dict[str, Any]]
    current: dict[str, Any] | None = None
    begun: str | None = None
    ended: bool = False
    heard: float = dataclasses.field(default_factory=time.monotonic)


def run(
    table: str, tasks: Iterable[Mapping[str, Any]], limit: float, jobs: int = 2
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Run tasks in `jobs` processes, and yield each task with each of its results as it comes.

    A diagnosis that ends or blocks its process gives {"outcome": "crashed"}. The other diagnoses of its task follow.

    Args:
        table: Entries, as MODULE:NAME.
        tasks: Tasks of `kmha.verify.bank.zoo.diagnoses`, each with the entry's "framework".
        limit: Time limit of a diagnosis in seconds.
        jobs: Number of processes.
    """
    waiting: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        waiting.setdefault(SHARED.get(task["framework"], task["framework"]), []).append(dict(task))
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while len(workers) < jobs and (share := _share(waiting, jobs)):
                workers.append(_start(table, share, limit))
            ready = wait([worker.connection for worker in workers], timeout=1.0)
            for worker in list(workers):
                if worker.connection in ready:
                    yield from _heard(worker)
                elif time.monotonic() - worker.heard > PATIENCE * limit + IMPORTS:
                    worker.ended = True
                if worker.ended:
                    yield from _ended(worker)
                if worker.ended or (worker.current is None and not worker.tasks):
                    _stop(worker)
                    workers.remove(worker)
                    if worker.tasks:
                        workers.append(_start(table, worker.tasks, limit))
    finally:
        for worker in workers:
            _stop(worker)


def alone(table: str, task: Mapping[str, Any], result: dict[str, Any], limit: float) -> dict[str, Any]:
    """Return the result of a diagnosis that is made in a process of its own, if the one in a shared process went wrong.

    A package may change what the packages after it import, such as functions of torch. Whoever diagnoses one layer does
    not have the others in the process.
    """
    if result.get("outcome") not in AGAIN:
        return result
    one = {name: value for name, value in task.items() if name != "done"}
    one |= {"ids": [result["id"]]} if task["do"] == "mutants" else {}
    return next((second for _, second in run(table, [one], limit, jobs=1)), result)


def _share(waiting: dict[str, list[dict[str, Any]]], jobs: int) -> list[dict[str, Any]]:
    """Take tasks of the framework with most tasks: half of them if it is the only one, else all."""
    if not waiting:
        return []
    name = max(waiting, key=lambda each: len(waiting[each]))
    tasks = waiting[name]
    count = len(tasks) if len(waiting) > 1 or len(tasks) < 2 * jobs else -(-len(tasks) // jobs)
    waiting[name] = tasks[count:]
    if not waiting[name]:
        del waiting[name]
    return tasks[:count]


def _start(table: str, tasks: list[dict[str, Any]], limit: float) -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        process = context.Process(target=_work, args=(table, limit, there), daemon=True)
        process.start()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    there.close()
    worker = _Worker(process, here, list(tasks))
    _next(worker)
    return worker


def _next(worker: _Worker) -> None:
    """Give a worker its next task."""
    worker.current = worker.tasks.pop(0) if worker.tasks else None
    worker.begun, worker.heard = None, time.monotonic()
    if worker.current is not None:
        worker.connection.send(worker.current)


def _heard(worker: _Worker) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Read one message of a worker."""
    try:
        message = worker.connection.recv()
    except (EOFError, OSError):
        worker.ended = True
        return
    worker.heard = time.monotonic()
    if "begins" in message:
        worker.begun = message["begins"]
    elif "done" in message:
        _next(worker)
    elif worker.current is not None:
        worker.current.setdefault("done", []).append(message.get("id"))
        yield worker.current, message


def _ended(worker: _Worker) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the result of the diagnosis at which a worker ended or blocked, and keep the rest of its task."""
    worker.process.kill()
    worker.process.join()
    task = worker.current
    worker.current = None
    if task is None:
        return
    if task["do"] == "mutants" and worker.begun:
        rest = [each for each in task["ids"] if each != worker.begun and each not in task.get("done", ())]
        yield task, {"id": worker.begun, "kept": True, "outcome": diagnoses.CRASHED, "ids": [], "seconds": 0.0}
        if rest:
            worker.tasks.insert(0, {**task, "ids": rest})
    elif task["do"] == "right":
        yield task, {"outcome": diagnoses.CRASHED, "ids": [], "seconds": 0.0}


def _stop(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.kill()
    worker.process.join()


def _work(table: str, limit: float, connection: Connection) -> None:
    """Run tasks in this process until the connection is closed."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        sent = set()
        try:
            for result in diagnoses.run(table, task, limit):
                sent.add(result.get("id"))
                connection.send(result)
        except (Exception, SystemExit, diagnoses.TooSlowError) as error:  # other people's code may raise anything
            says = f"{type(error).__name__}: {error}"[:300]
            for each in refused(task, sent):
                connection.send({"outcome": diagnoses.REFUSED, "ids": [], "says": says, **each})
        connection.send({"done": True})


def refused(task: Mapping[str, Any], sent: Container[str | None]) -> list[dict[str, Any]]:
    """Return what tells the results apart that a task does not have because it raised an error.

    >>> refused({"do": "right"}, ()), refused({"do": "mutants", "ids": ["one", "two"]}, {"one"})
    ([{}], [{'id': 'two', 'kept': True}])
    """
    if task["do"] != "mutants":
        return [{}]
    return [{"id": each, "kept": True} for each in task["ids"] if each not in sent]
