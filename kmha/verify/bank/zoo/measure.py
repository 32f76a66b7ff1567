"""Measure the diagnosis on the zoo: right entries over several seeds, and a random sample of mutants.

Each result is appended to a file as one line of JSON, so that an interrupted measurement resumes.
"""

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kmha.verify.bank.zoo import diagnoses, workers
from kmha.verify.bank.zoo.entry import HELD_OUT, TUNED, Entry

TABLE = "kmha.verify.bank.zoo.manifest:ENTRIES"
HALVES = {"tuned": (TUNED,), "held-out": (HELD_OUT,), "both": (TUNED, HELD_OUT)}
LIMIT = 60.0  # seconds for one diagnosis


@dataclasses.dataclass(frozen=True)
class Plan:
    """The entries, mutants and seeds to measure.

    Attributes:
        packages: Packages to measure, or none for all that are installed.
        halves: Halves of the zoo.
        mutants: Number of mutants to draw, or `None` for all.
        seeds: Number of seeds for each right entry.
        seed: Seed of the sample of mutants, and first seed of the diagnoses.
        limit: Time limit of a diagnosis, in seconds.
        table: Entries, as MODULE:NAME.
    """

    packages: tuple[str, ...] = ()
    halves: tuple[str, ...] = (TUNED, HELD_OUT)
    mutants: int | None = None
    seeds: int = 5
    seed: int = 0
    limit: float = LIMIT
    table: str = TABLE

    def entries(self) -> list[tuple[int, Entry]]:
        """Return the entries to measure, each with its number in the table."""
        from kmha.verify.bank.zoo import manifest

        missing = set(manifest.missing({entry.package for entry in diagnoses.entries(self.table)}))
        return [
            (number, entry)
            for number, entry in enumerate(diagnoses.entries(self.table))
            if entry.half in self.halves
            and (not self.packages or entry.package in self.packages)
            and entry.package not in missing
        ]


def default_file() -> Path:
    """Return the file in the user's cache folder to which results are appended, one for each version of the code."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kmha"
    return folder / f"zoo-{_fingerprint()}.jsonl"


def _fingerprint() -> str:
    """Return a hash of the code that diagnoses and of the zoo."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[2].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def measure(
    plan: Plan, file: Path, jobs: int = 2, progress: Callable[[str, int, int], None] = lambda *_: None
) -> list[dict[str, Any]]:
    """Return all results, those in `file` and those measured now, which are appended to it.

    Args:
        plan: What to measure.
        file: File with one result in each line.
        jobs: Number of processes.
        progress: Function called with a description, the number of results and the number of all that are expected.
    """
    entries = dict(plan.entries())
    stored = (each for each in _read(file) if each["entry"] in entries and _wanted(each, plan))
    known = {_key(each): each for each in stored}  # once each, if two runs wrote to the file at the same time
    found = [*known.values()]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as sink:

        def add(result: dict[str, Any]) -> None:
            found.append(result)
            sink.write(json.dumps(result) + "\n")
            sink.flush()

        drawn = _draw(plan, entries, jobs, found, add, progress)
        tasks = list(_tasks(plan, entries, drawn, known))
        total = sum(len(task.get("ids", (0,))) for task in tasks)
        for count, (task, result) in enumerate(workers.run(plan.table, tasks, plan.limit, jobs), 1):
            result = workers.alone(plan.table, task, result, plan.limit)
            add(_labelled(task, result, entries[task["entry"]]))
            progress(task["name"], count, total)
    return [each for each in found if each["do"] == "right" or (each["entry"], each.get("id")) in drawn]


def _wanted(result: Mapping[str, Any], plan: Plan) -> bool:
    """Return whether a stored result belongs to the plan."""
    return result["do"] != "right" or plan.seed <= result["seed"] < plan.seed + plan.seeds


def _key(result: Mapping[str, Any]) -> tuple[Any, ...]:
    return result["do"], result["entry"], result["id"] if result["do"] == "mutant" else "", result["seed"]


def _read(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the results in a file. The last line may be incomplete."""
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            return


def _draw(
    plan: Plan,
    entries: Mapping[int, Entry],
    jobs: int,
    found: Sequence[Mapping[str, Any]],
    add: Callable[[dict[str, Any]], None],
    progress: Callable[[str, int, int], None],
) -> set[tuple[int, str]]:
    """Draw mutants at random. Return the number of the entry and the id of each mutant."""
    if plan.mutants == 0:
        return set()
    listed = {each["entry"] for each in found if each["do"] == "list"}
    tasks = [_task("list", number, entry) for number, entry in entries.items() if number not in listed]
    for count, (task, result) in enumerate(workers.run(plan.table, tasks, plan.limit, jobs), 1):
        add(_labelled(task, {"ids": [], **result}, entries[task["entry"]]))
        progress(f"edits of {task['name']}", count, len(tasks))
    edits = {(each["entry"], id) for each in found if each["do"] == "list" for id in each["ids"]}
    order = sorted(edits, key=lambda edit: hashlib.sha256(f"{plan.seed} {edit}".encode()).digest())
    return set(order[: plan.mutants])


def _task(do: str, number: int, entry: Entry, **more: Any) -> dict[str, Any]:
    name = f"{entry.package}/{entry.where.partition(':')[2]}"
    return {"do": do, "entry": number, "framework": entry.framework, "name": name, **more}


def _tasks(
    plan: Plan, entries: Mapping[int, Entry], drawn: set[tuple[int, str]], known: Container[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    for number, entry in entries.items():
        for seed in range(plan.seed, plan.seed + plan.seeds):
            if ("right", number, "", seed) not in known:
                yield _task("right", number, entry, seed=seed)
        ids = [id for of, id in sorted(drawn) if of == number and ("mutant", number, id, plan.seed) not in known]
        if ids:
            yield _task("mutants", number, entry, ids=ids, seed=plan.seed)


def _labelled(task: Mapping[str, Any], result: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    """Return a result with what identifies it."""
    do = "mutant" if task["do"] == "mutants" else task["do"]
    about = {"do": do, "entry": task["entry"], "package": entry.package, "where": entry.where, "half": entry.half}
    about |= {"kind": entry.kind, "framework": entry.framework, "options": bool(entry.options)}
    return {**about, "seed": task.get("seed", 0), "id": f"{task['name']}", **result}


def outcomes(results: Sequence[Mapping[str, Any]], do: str, half: str | None = None) -> Counter[str]:
    """Count the outcomes of the right entries or of the kept mutants, in one half or in both.

    >>> outcomes([{"do": "right", "half": "tuned", "outcome": "right"}], "right")
    Counter({'right': 1})
    """
    chosen = (each for each in results if each["do"] == do and half in (None, each["half"]))
    return Counter(each["outcome"] for each in chosen if each.get("kept", True))


def by_operator(results: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Count the outcomes of the kept mutants for each operator."""
    found: dict[str, Counter[str]] = {}
    for each in results:
        if each["do"] == "mutant" and each.get("kept") and "operator" in each:
            found.setdefault(each["operator"], Counter())[each["outcome"]] += 1
    return dict(sorted(found.items()))


@dataclasses.dataclass(frozen=True)
class Measure:
    """One row of the table: a share, and its target.

    Attributes:
        name: What is measured.
        count: Number of cases that count.
        of: Number of all cases.
        target: The share that is required.
        most: Whether the target is a maximum. Otherwise, it is a minimum.
    """

    name: str
    count: int
    of: int
    target: float
    most: bool = False

    @property
    def share(self) -> float:
        return self.count / self.of if self.of else float(not self.most)

    @property
    def reached(self) -> bool:
        return self.share <= self.target if self.most else self.share >= self.target


def measures(results: Sequence[Mapping[str, Any]], half: str | None = None) -> list[Measure]:
    """Return the rows of the table for one half, or for both."""
    right, mutants = outcomes(results, "right", half), outcomes(results, "mutant", half)
    runs, made = right.total(), mutants.total()
    of_half = [each for each in results if each["do"] == "right" and half in (None, each["half"])]
    entries = {each["entry"] for each in of_half}
    read = {each["entry"] for each in of_half if each["outcome"] == diagnoses.RIGHT}
    plain = {each["entry"] for each in of_half if each["outcome"] == diagnoses.RIGHT and not each["options"]}
    return [
        Measure("right entries accused", right[diagnoses.ACCUSED], runs, 0.0, most=True),
        Measure("right entries said only to differ", right[diagnoses.UNKNOWN], runs, 0.0, most=True),
        Measure("right entries read without an option", len(plain), len(entries), 0.9),
        Measure("right entries read, some with an option", len(read), len(entries), 1.0),
        Measure("mutants named with a right id", mutants[diagnoses.NAMED], made, 0.85),
        Measure("mutants named with a wrong id", mutants[diagnoses.WRONG_ID], made, 0.01, most=True),
        Measure('mutants called "right"', mutants[diagnoses.RIGHT], made, 0.02, most=True),
        Measure("mutants said only to differ", mutants[diagnoses.UNKNOWN], made, 1.0, most=True),
        Measure(
            "mutants refused, not judged, too slow",
            sum(mutants[name] for name in (diagnoses.REFUSED, diagnoses.UNJUDGED, diagnoses.SLOW, diagnoses.CRASHED)),
            made,
            1.0,
            most=True,
        ),
    ]
