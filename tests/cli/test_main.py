import subprocess
import sys

import pytest
from click.testing import CliRunner

from kmha import __version__
from kmha.cli import main


def _run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_help_names_the_commands():
    result = _run("--help")
    assert result.exit_code == 0
    for command in ("compare", "bench", "train", "translate", "evaluate", "convert", "course"):
        assert command in result.output
    assert _run("-h").output == result.output


def test_no_summary_is_truncated():
    for arguments in ([], ["course"]):
        page = CliRunner().invoke(main, [*arguments, "--help"], terminal_width=80).output
        assert "..." not in page.partition("\nCommands:\n")[2]


HELP = {
    "compare": ["MODULE:CLASS"],
    "bench": ["--plot FILE"],
    "train": ["kmha train dates", "kmha train multi30k --data", "kmha train --source", "--restart"],
    "translate": ["--n-best", "Examples:"],
    "evaluate": ["--test NAME", "Examples:"],
    "convert": ["--from LAYOUT|auto", "kmha convert --list"],
    "course": ["kmha course start", "check", "watch", "hint", "verify", "release"],
}


def test_help_imports_no_tensorflow():
    code = (
        "import sys\nfrom kmha.cli import conversion, evaluation, main, training, translation\n"
        f"for command in {[*HELP]}:\n    main([command, '--help'], standalone_mode=False)\n    print('=====')\n"
        "heavy = {'keras', 'tensorflow', 'numpy', 'torch', 'tokenizers', 'sacrebleu', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    *pages, imported = output.split("=====")
    assert imported == "\n[]\n"
    for page, (command, texts) in zip(pages, HELP.items(), strict=True):
        for text in texts:
            assert text in page, command


def test_help_is_fast():
    code = (
        "import sys\nfrom kmha.cli import main\nmain(['--help'], standalone_mode=False)\n"
        "print(sorted({'rich', 'keras', 'tensorflow', 'numpy', 'tokenizers'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert output.startswith("Usage: ")
    assert output.endswith("\n[]\n")


def test_version():
    assert _run("--version").output == f"main, version {__version__}\n"


def test_wrong_options_are_explained():
    for arguments, message in (
        (["compare", "--cases", "0"], "0 is not in the range x>=1"),
        (["compare", "--dtype", "int8"], "'int8' is not one of 'float64'"),
        (["compare", "--backend", "theano"], "'theano' is not one of"),
        (["compare", "--json", "no/such/folder/report.json"], "the folder no/such/folder does not exist"),
        (["compare", "--cases", "many"], "'many' is not a valid integer"),
        (["compare", "--layers", "x"], "Did you mean"),
        (["compared"], "No such command 'compared'"),
    ):
        result = _run(*arguments)
        assert result.exit_code == 2, arguments
        assert message in result.output, result.output
        assert "Traceback" not in result.output


def test_errors_of_the_system_take_one_line(tmp_path, monkeypatch):
    def refused(*arguments, **options):
        raise PermissionError(13, "Permission denied", "there")

    monkeypatch.setattr("kmha.cli.training.train", refused)
    result = _run("train", "dates")
    assert result.exit_code == 1
    assert result.output == "Error: there: Permission denied.\n"


def test_a_read_only_folder_is_an_error_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("kmha.cli.options.os.access", lambda *_: False)  # root may write anywhere
    result = _run("compare", "--json", str(tmp_path / "report.json"))
    assert result.exit_code == 2
    assert f"the folder {tmp_path} is not writable." in result.output


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_are_finite(value):
    for option in ("--length-penalty", "--temperature", "--top-p"):
        result = _run("translate", "model", "text", f"{option}={value}")
        assert result.exit_code == 2
        assert f"Invalid value for '{option}'" in result.output
