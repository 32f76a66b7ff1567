"""The measurement: what is counted, and that it resumes and survives crashes."""

import json
import sys

import numpy as np
import pytest

from kmha.verify.bank.zoo import diagnoses, measure, workers
from kmha.verify.bank.zoo.entry import HELD_OUT, TUNED, Entry


def attention(query, key, value, mask=None):
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        logits = np.where(mask, logits, -1e9)
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    scores = scores / scores.sum(-1, keepdims=True)
    return scores @ value


ENTRIES = (Entry("numpy", f"{__name__}:attention", "attention", "numpy"),)
TABLE = f"{__name__}:ENTRIES"


def case(do, half, outcome, **more):
    return {"do": do, "half": half, "outcome": outcome, "entry": 0, "options": False, "kept": True, **more}


def test_the_rows_of_the_table():
    results = [
        *[case("right", TUNED, "right")] * 3,
        case("right", HELD_OUT, "accused", entry=1),
        *[case("mutant", TUNED, "named", operator="scale-dropped")] * 6,
        case("mutant", TUNED, "wrong id", operator="scale-dropped"),
        case("mutant", TUNED, "crashed"),
        case("mutant", TUNED, "named", kept=False),
        case("mutant", HELD_OUT, "unknown", operator="mix-key"),
    ]
    rows = {row.name: row for row in measure.measures(results, TUNED)}
    assert rows["right entries accused"].reached
    assert (rows["mutants named with a right id"].count, rows["mutants named with a right id"].of) == (6, 8)
    assert not rows["mutants named with a wrong id"].reached
    assert rows["mutants refused, not judged, too slow"].count == 1
    assert not next(row for row in measure.measures(results, HELD_OUT)).reached
    assert measure.by_operator(results)["scale-dropped"] == {"named": 6, "wrong id": 1}


def test_a_task_is_run_here():
    (listed,) = diagnoses.run(TABLE, {"do": "list", "entry": 0}, 60)
    ids = [id for id in listed["ids"] if "scale-dropped" in id or "mix-key" in id]
    assert len(ids) == 2
    (found,) = [each for each in diagnoses.run(TABLE, {"do": "right", "entry": 0, "seed": 0}, 60) if "outcome" in each]
    assert found["outcome"] == "right"
    found = [
        each
        for each in diagnoses.run(TABLE, {"do": "mutants", "entry": 0, "ids": ids, "seed": 0}, 60)
        if "outcome" in each
    ]
    assert [each["outcome"] for each in found] == ["named", "named"]
    assert all({*each["ids"]} <= {*each["right_ids"]} for each in found)


def test_the_limit_of_a_diagnosis_leaves_no_package_half_imported(tmp_path, monkeypatch):
    source = (
        "from kmha.verify.bank.zoo.entry import Entry\n"
        "ENTRIES = [Entry('numpy', 'slow_to_import:attention', 'attention', 'numpy')]\n"
    )
    (tmp_path / "zoo_of_slow_imports.py").write_text(source)
    (tmp_path / "slow_to_import.py").write_text(
        "import time\ntime.sleep(0.5)\ndef attention(query, key, value): 1 / 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task = {"do": "right", "entry": 0, "seed": 0}
    (found,) = [each for each in diagnoses.run("zoo_of_slow_imports:ENTRIES", task, 0.2) if "outcome" in each]
    assert hasattr(sys.modules["slow_to_import"], "attention")
    assert found["outcome"] in ("refused", "too slow")


def test_a_harmless_mistake_that_a_remark_names_is_named():
    result = {"outcome": "right", "ids": ["heads-size-first"]}
    assert diagnoses.judged(result, ["heads-size-first"])["outcome"] == "named"
    assert diagnoses.judged(result, ["scale-missing"])["outcome"] == "right"
    assert diagnoses.judged({"outcome": "accused", "ids": ["heads-size-first"]}, ["mix-key"])["outcome"] == "wrong id"


@pytest.mark.slow
def test_a_crash_and_a_hang_are_counted(tmp_path, monkeypatch):
    """The entries are in a module of their own, which worker processes can import."""
    source = (
        "import os, time\n"
        "from kmha.verify.bank.zoo.entry import Entry\n"
        "def crashing(query, key, value):\n    os._exit(3)\n"
        "def endless(query, key, value):\n    time.sleep(10**6)\n"
        "def attention(query, key, value):\n"
        "    import numpy as np\n"
        "    powers = np.exp(query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]))\n"
        "    return powers / powers.sum(-1, keepdims=True) @ value\n"
        "names = ('crashing', 'endless', 'attention')\n"
        "ENTRIES = [Entry('numpy', f'zoo_of_processes:{name}', 'attention', 'numpy') for name in names]\n"
    )
    (tmp_path / "zoo_of_processes.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    tasks = [{"do": "right", "entry": number, "seed": 0, "framework": "numpy"} for number in range(3)]
    found = {task["entry"]: result for task, result in workers.run("zoo_of_processes:ENTRIES", tasks, 10.0, jobs=1)}
    assert found[0]["outcome"] == "crashed"
    assert found[1]["outcome"] == "too slow"
    assert found[2]["outcome"] in ("right", "accused")  # it overflows where logits are large


@pytest.mark.slow
def test_what_another_package_breaks_is_diagnosed_alone(tmp_path, monkeypatch):
    source = (
        "import numpy as np\n"
        "from kmha.verify.bank.zoo.entry import Entry\n"
        "factor = 1\n"
        "def attention(query, key, value):\n"
        "    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])\n"
        "    powers = np.exp(logits - logits.max(-1, keepdims=True))\n"
        "    return factor * (powers / powers.sum(-1, keepdims=True)) @ value\n"
        "def breaking(query, key, value):\n"
        "    global factor\n"
        "    factor = 0\n"
        "    return attention(query, key, value)\n"
        "names = ('breaking', 'attention')\n"
        "ENTRIES = [Entry('numpy', f'zoo_of_two:{name}', 'attention', 'numpy') for name in names]\n"
    )
    (tmp_path / "zoo_of_two.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    table = "zoo_of_two:ENTRIES"
    tasks = [{"do": "right", "entry": number, "seed": 0, "framework": "numpy"} for number in range(2)]
    (_, broken), (task, shared) = workers.run(table, tasks, 20.0, jobs=1)
    assert (broken["outcome"], shared["outcome"]) == ("accused", "accused")
    assert workers.alone(table, task, shared, 20.0)["outcome"] == "right"


def test_an_interrupted_measurement_resumes(tmp_path, monkeypatch):
    made = []

    def run(table, tasks, limit, jobs):
        for task in tasks:
            made.append(task)
            if task["do"] == "list":
                yield task, {"ids": ["numpy/attention: mix-key@20", "numpy/attention: logits-key-key@16"]}
            elif task["do"] == "right":
                yield task, {"outcome": "right", "ids": []}
            else:
                for id in task["ids"]:
                    yield task, {"id": id, "kept": True, "outcome": "named", "operator": "mix-key", "ids": []}

    monkeypatch.setattr(workers, "run", run)
    monkeypatch.setattr(measure.Plan, "entries", lambda self: [(0, ENTRIES[0])])
    plan, file = measure.Plan(table=TABLE, seeds=2), tmp_path / "results.jsonl"
    first = measure.measure(plan, file)
    assert len(first) == 4
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:9])  # interrupted while writing
    made.clear()
    again = measure.measure(plan, file)
    assert [task["do"] for task in made] == ["mutants"]
    assert len(made[0]["ids"]) == 1
    assert sorted(json.dumps(each, sort_keys=True) for each in again) == sorted(
        json.dumps(each, sort_keys=True) for each in first
    )
    file.write_text(file.read_text() * 2)  # as two runs at the same time write it
    assert len(measure.measure(plan, file)) == 4
