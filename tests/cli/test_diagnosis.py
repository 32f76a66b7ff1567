import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from kmha.cli import common, diagnosis, isolated, main
from kmha.sandbox import limits

pytestmark = pytest.mark.tensorflow

LEARNER = r"""
import contextlib
import json
import os
import struct
import time

import numpy as np

slept = []


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def right(q, k, v, mask=None):
    print("[red]not[/] ours")
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    return softmax(logits if mask is None else np.where(mask, logits, -1e9)) @ v


def unscaled(q, k, v):
    scores = softmax(q @ np.swapaxes(k, -1, -2))
    return scores @ v, scores


def two(q, k, v, mask=None):
    logits = q @ np.swapaxes(k, -1, -2)
    return softmax(logits if mask is None else np.where(mask, -1e9, logits)) @ v


def scaled_by(q, k, v, factor):
    return right(q, k, v) * factor


def in_training(q, k, v, dropout=0.0, training=False):
    return right(q, k, v) * (2.0 if training else 1.0)


def in_part(q, k, v, mask=None):
    if mask is not None:
        raise ValueError("[bold]no masks[/] today")
    return right(q, k, v)


def nothing(q, k, v):
    return None


def leaves(q, k, v):
    raise SystemExit(5)


def interrupts(q, k, v):
    raise KeyboardInterrupt


def slow_with_masks(q, k, v, mask=None):
    if mask is not None:
        time.sleep(60)
    return right(q, k, v)


def a_little_slow(q, k, v):
    if not slept:
        slept.append(time.sleep(2.5))
    return right(q, k, v)


def aborts(q, k, v):
    os.abort()


def writes(q, k, v):
    with open("written.txt", "w") as file:
        file.write("text")


def starts(q, k, v):
    os.posix_spawn("/bin/true", ["true"], {})


def fills(q, k, v):
    return np.ones(1 << 34)


def forges(q, k, v):
    from kmha.sandbox.encoding import encode
    from kmha.sandbox.worker_api import _connection

    report = json.dumps({"report": {"verdict": "right", "headline": "\x1b[2J"}})
    message = encode({"result": report, "error": None, "changed": [], "printed": ""})
    descriptor = max(int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))
    for candidate in range(3, descriptor + 1):
        with contextlib.suppress(OSError):
            os.write(candidate, struct.pack("<Q", len(message)) + message)
    os._exit(0)


def speaks(q, k, v):
    raise ValueError("\x1b]0;title\x07 [bold red]not markup[/]")


class Home:
    @staticmethod
    def attend(q, k, v):
        return unscaled(q, k, v)


NUMBER = 3
"""
LAYER = """
import keras


class Attention(keras.layers.Layer):
    def __init__(self, units, scale=1.0):
        super().__init__()
        self.scale = scale
        self.query, self.key, self.value = (keras.layers.Dense(units) for _ in range(3))

    def call(self, x):
        logits = self.query(x) @ keras.ops.swapaxes(self.key(x), 1, 2) / self.query.units**0.5
        return keras.ops.softmax(self.scale * logits) @ self.value(x)


built = Attention(5, scale=5**0.5)
built(keras.ops.ones((1, 2, 7)))
"""


TORCH = """
import torch


class Attention(torch.nn.Module):
    def __init__(self, units):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(units, units) for _ in range(3))

    def forward(self, x):
        return torch.softmax(self.query(x) @ self.key(x).mT, -1) @ self.value(x)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Work in a folder with a learner's modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("os.environ", dict(os.environ))
    (tmp_path / "pupil.py").write_text(LEARNER)
    (tmp_path / "pupil_layers.py").write_text(LAYER)
    yield
    for name in ("pupil", "pupil_layers"):
        sys.modules.pop(name, None)


def _run(*arguments):
    return CliRunner().invoke(main, ["diagnose", *arguments])


def _words(result):
    return " ".join(result.stdout.split())


def test_right_candidate():
    result = _run("pupil:right")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("right is right: its numbers are those of the reference in all 1")
    assert "Tested: self-attention, cross-attention, a value other than the key, masks, " in _words(result)
    assert "Not tested: dropout." in _words(result)
    assert "ours" not in result.output
    assert "It printed: [red]not[/] ours [red]not[/] ours" in _words(_run("pupil:right", "--details"))


def test_a_known_mistake(tmp_path):
    result = _run("pupil:unscaled", "--json", "found.json", "--seed", "3")
    assert result.exit_code == 1
    text = _words(result)
    assert "unscaled is wrong: this mistake gives the same numbers in all 4 calls" in text
    assert "scale-missing: You did not scale the logits. Divide them by √O before the softmax. " in text
    assert "from right" not in text
    assert "difference of the scores in item" in text
    assert "rows: query positions columns: key positions" in text
    assert "from pupil import unscaled" in result.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["verdict"], found["seed"], found["candidate"]) == ("known", 3, "unscaled")
    assert [one["id"] for one in found["mistakes"]] == ["scale-missing"]
    assert found["code"] in result.stdout


def test_details():
    text = _words(_run("pupil:unscaled", "--details"))
    assert "Sizes: B=" in text
    assert "kmha called it with inputs (B, H, P, O), in float64." in text
    assert "from right" in text
    assert "from scale-missing" in text


def test_printed_script_runs(tmp_path, monkeypatch, capsys):
    result = _run("pupil:unscaled")
    code = result.stdout[result.stdout.index("import numpy as np") : result.stdout.index("Cross-attention: ")]
    monkeypatch.syspath_prepend(tmp_path)
    exec(code, {"__name__": "shown"})  # noqa: S102 - what was printed
    assert capsys.readouterr().out


@pytest.mark.slow
def test_two_mistakes():
    result = _run("pupil:two", "--mask", "attends")
    assert result.exit_code == 1
    text = _words(result)
    assert "two is wrong: these mistakes give the same numbers in all " in text
    assert "scale-missing: " in text
    assert "mask-inverted: " in text
    assert "If True (or 1) in your mask is meant to hide, say so" in text
    assert "scale-missing" in _words(_run("pupil:two", "--mask", "hides"))


def test_an_unknown_mistake():
    result = _run("pupil:scaled_by", "--set", "factor=1.7")
    assert result.exit_code == 1
    text = _words(result)
    assert "scaled_by differs from the reference: " in text
    assert "and no known mistake explains them. It is another design, or a mistake" in text
    assert "First step that differs: the path of the values" in text
    assert "It is 1.7 times the right output everywhere." in text
    assert "result = scaled_by(factor=1.7, q=q, k=k, v=v)" in result.stdout


def test_the_value_of_an_unknown_argument_is_stated():
    result = _run("pupil:scaled_by")
    assert result.exit_code == 0
    assert "kmha does not know the argument `factor`, and passed 1." in _words(result)


def test_without_a_smallest_case_there_is_no_code():
    result = _run("pupil:in_training")
    assert result.exit_code == 1
    assert "The smallest case" not in result.stdout


def test_right_in_all_calls_that_run():
    result = _run("pupil:in_part")
    assert result.exit_code == 0, result.output
    text = _words(result)
    assert "in_part is right: its numbers are those of the reference in the 4 calls that it can run" in text
    assert "It raises an error (ValueError: [bold]no masks[/] today) in these calls: mask; " in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "TypeError: expected an array, or a tuple (output, scores). Received: None."),
        ("leaves", "SystemExit: 5"),
    ],
)
def test_candidate_that_cannot_be_run(tmp_path, name, message):
    result = _run(f"pupil:{name}", "--json", "found.json")
    assert result.exit_code == 1
    assert f"{name} cannot be run: {message}" in _words(result)
    assert json.loads((tmp_path / "found.json").read_text())["verdict"] == "raises"


@pytest.mark.slow
def test_layer_class_and_built_layer():
    assert _run("pupil_layers:Attention").exit_code == 0
    wrong = _run("pupil_layers:built")
    assert wrong.exit_code == 1, wrong.output
    assert "scale-missing" in wrong.stdout
    assert "from pupil_layers import built as layer" in wrong.stdout
    assert _run("pupil_layers:Attention", "--set", "scale=0.5", "--set", "units=4").exit_code == 1


@pytest.mark.slow
def test_float16_option():
    told = _run("pupil_layers:Attention")
    assert "In float16 it is wrong, with half-logits-overflow: " in _words(told)
    asked = _run("pupil_layers:Attention", "--float16")
    assert asked.exit_code == 1
    assert "half-logits-overflow: " in _words(asked)


def test_function_inside_a_class():
    assert "Home.attend is wrong" in _words(_run("pupil:Home.attend"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pupil:right", "--role", "colour=q"], 3, "expected a role such as query, key, value, mask or heads."),
        (["pupil:right", "--role", "query"], 2, "expected ROLE=NAME, such as query=entree. Received: 'query'."),
        (["pupil:right", "--set", "colour=1"], 3, "right() has no argument `colour`. It has: q, k, v, mask."),
        (["pupil:right", "--set", "colour"], 2, "expected NAME=VALUE, such as num_heads=4. Received: 'colour'."),
        (["pupil:right", "--set", "=1"], 2, "expected NAME=VALUE"),
        (["pupil:right", "--mask", "shows"], 2, "'shows' is not one of 'attends', 'hides', 'adds'"),
        (["pupil:wright"], 3, "pupil does not have wright. It has: right"),
        (["pupil:NUMBER"], 3, "expected a layer or a function. Received: 3."),
        (["pupil"], 2, "expected MODULE:NAME, such as my_module:MyAttention. Received: 'pupil'."),
        (["pupil.py:right"], 2, "name the module without .py"),
        (["nowhere:right"], 3, "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
        (["pupil_layers:Attention", "--set", "units=0.5"], 3, "expected `units` to be a whole number of at least 1."),
        pytest.param(
            ["pupil_layers:Attention", "--set", "scale=text"], 1, "Attention cannot be run: ", marks=pytest.mark.slow
        ),
        ([], 2, "expected MODULE:NAME of a layer or function to diagnose, --bank, --zoo or"),
    ],
)
def test_errors_teach(arguments, status, message):
    result = _run(*arguments)
    assert result.exit_code == status, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_missing_backend(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else found(name))
    result = _run("pupil:right", "--backend", "jax")
    assert result.exit_code == 1
    assert "pip install 'kmha[jax]'" in result.output


def test_ctrl_c(tmp_path):
    # A shell that runs the tests in the background ignores Ctrl-C.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from kmha.cli import main; main()"
    command = [sys.executable, "-c", program, "diagnose", "pupil:slow_with_masks"]
    scratch = tmp_path / "scratch"  # other tests make sandboxes at the same time
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert "still running" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=20)
    assert process.returncode == common.INTERRUPTED, errors
    assert printed == ""
    assert "Traceback" not in errors
    assert list(scratch.glob("kmha-sandbox-*")) == []


def test_a_call_that_takes_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(isolated, "FIRST", 0.0)
    result = _run("pupil:slow_with_masks", "--time-limit", "1", "--json", "found.json")
    assert result.exit_code == 3, result.output
    text = _words(result)
    assert "slow_with_masks could not be judged: the call 'mask" in text
    assert "took longer than 1 seconds. " in text
    assert "give it more time, with --time-limit SECONDS." in text
    assert json.loads((tmp_path / "found.json").read_text())["verdict"] == "unjudged"


@pytest.mark.slow
def test_a_slow_call_is_reported():
    result = _run("pupil:a_little_slow")
    assert result.exit_code == 0, result.output
    assert "cross-attention: still running. kmha stops it after 40 seconds." in " ".join(result.stderr.split())


@pytest.mark.slow
def test_a_module_that_takes_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(isolated, "IMPORTING", 1.0)
    (tmp_path / "sleeper.py").write_text("import time\ntime.sleep(60)\n")
    result = _run("sleeper:attention", "--time-limit", "1")
    assert result.exit_code == 3
    assert "importing sleeper took longer than 2 seconds. Put what runs for long below" in _words(result)


def test_a_candidate_that_reports_calls_itself(monkeypatch):
    """It sent escape sequences to the terminal, and began calls without an end, so that no time limit came."""
    stages, said, now = [], io.StringIO(), [0.0]
    monkeypatch.setattr(isolated.time, "monotonic", lambda: now[0])
    watch = isolated.Watch(1.0, stages.append, Console(file=said))
    watch.serve("stage", "\x1b[2Jcleared")
    watch.serve("begins", "\x1b]0;title\x07")
    now[0] = 15.0
    watch.tick()
    watch.serve("begins", "importing more time")
    now[0] = 22.0
    with pytest.raises(isolated.TookTooLongError):
        watch.tick()
    assert stages == [r"\x1b[2Jcleared"]
    assert "\x1b" not in said.getvalue() + watch.call
    again = isolated.Watch(1.0, stages.append, Console(file=said))
    for step in range(1, 4000):
        now[0] = 22.0 + step
        again.serve("begins", "importing")
        if again.elapsed > isolated.WHOLE:
            break
        again.tick()
        again.serve("ends")
    with pytest.raises(isolated.TookTooLongError):
        again.tick()


@pytest.mark.skipif(bool(limits.missing()), reason="this system does not have all limits")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("writes", "cannot be run: PermissionError: [Errno 13] Permission denied: 'written.txt'"),
        ("starts", "cannot be run: PermissionError: [Errno 1] Operation not permitted"),
        ("fills", "cannot be run: MemoryError: Unable to allocate 128. GiB"),
    ],
)
def test_the_candidate_runs_within_limits(tmp_path, name, message):
    result = _run(f"pupil:{name}")
    assert result.exit_code == 1
    assert message in _words(result)
    assert ("`kmha.verify.diagnose` in Python has no sandbox." in _words(result)) == ("PermissionError" in message)
    assert not (tmp_path / "written.txt").exists()


def test_a_candidate_that_ends_the_process():
    result = _run("pupil:aborts")
    assert result.exit_code == 1
    assert "aborts cannot be run: your code crashed the interpreter, or went over a limit (signal 6)" in _words(result)
    assert "in the call '" in _words(result)


def test_a_candidate_that_interrupts():
    result = _run("pupil:interrupts")
    assert result.exit_code == 1
    assert "interrupts cannot be run: KeyboardInterrupt" in _words(result)


def test_a_forged_report_cannot_change_the_terminal():
    result = _run("pupil:forges")
    assert result.exit_code == 3
    assert "the candidate's process sent a report that cannot be read." in " ".join(result.output.split())
    assert "\x1b" not in result.output


FORGED = {
    **dict.fromkeys(("verdict", "headline", "sure", "case", "code", "look"), "right"),
    **dict.fromkeys(("picture", "line", "nearest"), None),
    **{name: [] for name in ("wrong", "mistakes", "remarks", "advice", "tested", "untested", "details", "calls")},
}


class _Unread(list):
    """What a candidate sends instead of a text. Thousands of arrays took minutes to write out."""

    __str__ = __repr__ = lambda self: pytest.fail("it was written out")


def test_only_a_text_is_a_forged_report(monkeypatch):
    ran = SimpleNamespace(error=None, value=_Unread([np.zeros(1000)]), printed="")
    monkeypatch.setattr(isolated.Sandbox, "start", lambda self: None)
    monkeypatch.setattr(isolated.Sandbox, "call", lambda self, *_, **__: ran)
    result = _run("pupil:right")
    assert "something other than a report, or one that is too long." in " ".join(result.output.split())
    assert result.exit_code == 3


def test_only_a_text_is_the_name_of_a_call(monkeypatch):
    stages = []
    watch = isolated.Watch(1.0, stages.append, Console(file=io.StringIO()))
    watch.serve("stage", _Unread([np.zeros(1000)]))
    watch.serve("begins", _Unread([np.zeros(1000)]))
    assert (stages, watch.call) == ([""], "")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "right: right"),
        ({"picture": {"title": "t", "values": [[10**400, 1.5]], "columns": "keys"}}, "a report that cannot be read."),
        ({"picture": {"title": "t", "values": [[0, -1e-320]], "columns": "keys"}}, "right: right"),
        ({"picture": {"title": "t", "values": [[]], "columns": "keys"}}, "a report that cannot be read."),
        ({"verdict": []}, "a report that cannot be read."),
        ({"wrong": ["a: b"], "mistakes": [{"id": []}]}, "a report that cannot be read."),
        ({"wrong": ["a: b"] * 2_001}, "something other than a report, or one that is too long."),
        ({"line": {"text": [[1]] * 2_001}}, "something other than a report, or one that is too long."),
        *(
            ({name: "x" * 3_000}, "something other than a report, or one that is too long.")
            for name in ("wrong", "remarks", "advice", "details", "tested", "imported")
        ),
        ({"case": "x\n" * 3_000}, "something other than a report, or one that is too long."),
        *(
            ({name: ["\n" * 1_900] * 540}, "something other than a report, or one that is too long.")
            for name in ("remarks", "details")
        ),
        ({"wrong": ["x"] * 1_900, "more": [["x"] * 1_900] * 5}, "something other than a report, or one that is too lo"),
        ({"sure": "x" * (2 << 20)}, "something other than a report, or one that is too long."),
        ({"more": [[[]] * 1_000] * 1_000}, "something other than a report, or one that is too long."),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_forged_report_can_be_anything(monkeypatch, changes, says):
    """Some ended with a traceback, and 20,000 mistakes beside 20,000 names took 17 seconds."""
    text = json.dumps({"report": {**FORGED, **changes}})
    monkeypatch.setattr(isolated, "diagnose", lambda *_: isolated._outcome(text))
    result = _run("pupil:right")
    assert says in " ".join(result.output.split())
    assert result.exit_code == (0 if says == "right: right" else 3)


def test_the_text_of_a_candidate_is_not_markup():
    result = _run("pupil:speaks")
    assert r"ValueError: \x1b]0;title\x07 [bold red]not markup[/]" in _words(result)
    assert "\x1b" not in result.output


def test_without_a_sandbox_the_candidate_runs_in_this_process(monkeypatch):
    monkeypatch.delattr(os, "fork")
    result = _run("pupil:unscaled")
    assert result.exit_code == 1
    assert "scale-missing: " in result.stdout
    assert "the sandbox needs fork, which this system does not have." in " ".join(result.stderr.split())
    assert "The candidate runs in this process, without a time limit." in " ".join(result.stderr.split())


def test_only_the_candidates_own_framework_is_imported(tmp_path):
    _run("pupil:unscaled", "--json", "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["imported"] == ["numpy"]


def test_the_command_itself_imports_no_framework():
    program = "import sys; from kmha.cli import main; main(['diagnose', 'pupil:unscaled'], standalone_mode=False)"
    names = "[name for name in ('keras', 'tensorflow', 'torch', 'jax', 'pupil') if name in sys.modules]"
    code = f"import sys, atexit; atexit.register(lambda: print({names}, file=sys.stderr)); {program}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert "scale-missing: " in ran.stdout
    assert ran.stderr.splitlines()[-1] == "[]"


def test_a_torch_candidate_imports_no_tensorflow(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "torches.py").write_text(TORCH)
    result = _run("torches:Attention", "--json", "found.json")
    assert "scale-missing: " in result.stdout
    assert json.loads((tmp_path / "found.json").read_text())["imported"] == ["numpy", "torch"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("0.5", 0.5),
        ("false", False),
        ("True", True),
        ("None", None),
        ("null", None),
        ("[2, 0]", [2, 0]),
        ("softmax", "softmax"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_the_value_of_a_setting(text, value):
    found = diagnosis.parsed((f"name={text}",))
    assert found == {"name": value}
    assert type(found["name"]) is type(value)


@pytest.mark.parametrize("setting", ["", "4", "a b=1", "1a=2", "num-heads=2"])
def test_a_setting_needs_a_name(setting):
    with pytest.raises(click.BadParameter, match="expected NAME=VALUE"):
        diagnosis.parsed((setting,))
