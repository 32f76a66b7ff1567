"""Run a diagnosis, and print its report: the verdict, the smallest case, a picture, and on request the details."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kmha import atomic_files
from kmha.cli import common, isolated

LONGEST_CODE = 20_000  # number of characters of code that is shown in colours


def run(
    name: str,
    *,
    settings: tuple[str, ...],
    roles: tuple[str, ...],
    backend: str,
    json_file: Path | None,
    details: bool,
    time_limit: float,
    **options: Any,
) -> int:
    """Diagnose the layer or function that `name` refers to, with options of `diagnose`. Return the exit status."""
    given = {"name": name, "options": {**options, "arguments": parsed(settings), "roles": parsed_roles(roles)}}
    common.split_name(name)
    common.check_backend(backend)
    try:
        outcome = isolated.diagnose(given, backend, time_limit)
    except KeyboardInterrupt:
        return common.INTERRUPTED
    report = outcome["report"]
    if json_file is not None:
        atomic_files.write_json(json_file, report)
    try:
        show(common.screen(), report, details, outcome["printed"])
        return exit_status(report)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # untrusted code may have written it
        raise isolated.NotJudgedError("the candidate's process sent a report that cannot be read.") from None


def exit_status(report: Mapping[str, Any]) -> int:
    """Return the exit status for a report."""
    return {"right": 0, "unjudged": isolated.NotJudgedError.exit_code}.get(report["verdict"], 1)


def parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    """Parse NAME=VALUE settings. A VALUE is a JSON number, true, false, null or list, or else text."""
    found = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not (name.replace(".", "_").isidentifier() and equals):
            raise click.BadParameter(f"expected NAME=VALUE, such as num_heads=4. Received: {setting!r}.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = {"True": True, "False": False, "None": None}.get(text, text)
    return found


def parsed_roles(settings: tuple[str, ...]) -> dict[str, str]:
    """Parse ROLE=NAME settings. For a mask, the meaning of True may come before the name: mask=hides:masque."""
    found = {}
    for setting in settings:
        role, equals, name = setting.partition("=")
        if not (role.isidentifier() and equals and name.rpartition(":")[2].isidentifier()):
            raise click.BadParameter(f"expected ROLE=NAME, such as query=entree. Received: {setting!r}.")
        found[role] = name
    return found


def show(screen: Console, report: Mapping[str, Any], details: bool = False, printed: str = "") -> None:
    """Print a report. Its texts may come from the candidate, so nothing in them is read as markup."""
    from kmha.verify.diagnosing import rendering

    code: list[str] = []
    for line in [*rendering.lines(report), rendering.Line()]:
        if line.style == rendering.CODE:
            code.append(line.text)
            continue
        if code:
            screen.print(_python(code))
            code = []
        text = Text(line.lead, line.lead_style).append(line.text, line.style or "not bold")
        screen.print(text, no_wrap=not line.wraps, overflow="ignore" if not line.wraps else None)
    if details:
        _details(screen, report, printed)


def _details(screen: Console, report: Mapping[str, Any], printed: str) -> None:
    from kmha.verify.diagnosing import rendering
    from kmha.verify.diagnosing.plain import clean

    for text in report["details"]:
        screen.print(Text(text))
    if report.get("imported"):
        screen.print(Text(f"Its process imported {', '.join(report['imported'])}."))
    if printed:
        screen.print(Text("It printed:"), Text(clean(printed.strip())), sep="\n")
    rows = rendering.calls_table(report)
    if len(rows) > 1:
        screen.print(Text("\nLargest difference, relative to the largest number"))
        table = Table()
        for number, title in enumerate(rows[0]):
            table.add_column(Text(title), justify="right" if number else "left")
        for row in rows[1:]:
            table.add_row(*(Text(cell) for cell in row))
        screen.print(table)
    if report["code"] != report["case"]:
        screen.print(Text("\nThe smallest case with all weights:\n", style="bold"))
        screen.print(_python(report["code"].splitlines()))


def _python(lines: list[str]) -> Syntax | Text:
    """Return lines of code in colours, unless they are long: some texts take the highlighter minutes."""
    if sum(map(len, lines)) > LONGEST_CODE:
        return Text("\n".join(lines))
    return Syntax("\n".join(lines), "python", background_color="default", word_wrap=True)
