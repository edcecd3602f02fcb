"""Every flag is described, and help needs no more than the extra cli."""

import ast
import re
import subprocess
import sys

import pytest

from maxatk.cli.commands import COMMANDS
from maxatk.cli.main import main

HEAVY = "torch transformers tokenizers trl accelerate datasets peft httpx matplotlib jinja2 scipy"
HEAVY += " pandas math_verify inspect_ai pyarrow ray verl vllm"
WITHOUT_EXTRAS = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY.split()!r}:
            raise ModuleNotFoundError(f"No module named {{{{name!r}}}}", name=name)

sys.meta_path.insert(0, Missing())
from maxatk.cli.main import main

status = 0
for arguments in {{}}:
    try:
        status = max(status, main(arguments))
    except SystemExit as ended:
        status = max(status, ended.code)
sys.exit(status)
"""
UNITS = {
    "time-limit": "seconds",
    "timeout-s": "seconds",
    "backoff-s": "seconds",
    "memory-limit-mb": "mib",
    "max-new-tokens": "tokens",
    "workers": "processes",
    "jobs": "stages",
    "warmup-steps": "steps",
}


PARSERS = """
import tyro
from maxatk.cli.flags import one_command_of
from maxatk.cli.commands import COMMANDS
from maxatk.cli.main import entry

whole = one_command_of({name: entry(name) for name in COMMANDS})
tyro.cli(whole, prog="maxatk", args=["--tyro-print-completion", "bash"])
"""


@pytest.fixture(scope="module")
def flags():
    """Return (command, flags, text) of every flag of every command, from its own parser."""
    done = subprocess.run([sys.executable, "-c", PARSERS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    spec = re.search("^COMPLETION_SPEC = (.*)$", done.stdout, re.MULTILINE)
    return list(walk(ast.literal_eval(spec[1].replace(r"\n", " ")), ()))


def walk(parser, path):
    for option in parser["options"]:
        yield " ".join(path), option["flags"], option["description"].rpartition(" • ")[2]
    for name, inner in parser["subcommands"].items():
        yield from walk(inner, (*path, name))


def test_every_flag_has_a_text_and_a_default(flags):
    assert {command.partition(" ")[0] for command, _, _ in flags} == {"", *COMMANDS}
    assert len(flags) > 200
    for command, names, text in flags:
        if "--help" in names:
            continue
        match = re.fullmatch(r"(.+) \((?:default: .*|required.*|repeatable)\)", text)
        assert match, f"{command} {names[0]} has no text or no default: {text!r}"
        assert re.search("[a-z]{3}", match[1])


@pytest.mark.parametrize("name", UNITS)
def test_what_is_measured_has_its_unit(flags, name):
    texts = [text for _, names, text in flags if names[0].rpartition(".")[2].strip("-") == name]
    assert texts
    for text in texts:
        assert UNITS[name] in text.lower()


def without_extras(*commands):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS.format(list(map(list, commands)))],
        capture_output=True,
        text=True,
    )


def test_help_needs_no_extra_but_that_of_the_command_line():
    done = without_extras(*((command, "--help") for command in COMMANDS))
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert f"usage: maxatk {command}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (("train", "mini/train"), "torch", "train"),
        (("mini", "made"), "torch", "eval"),
        (("problems", "show", "mbpp", "1"), "datasets", "train"),
        (("view", "runs"), "matplotlib", "report"),
    ],
)
def test_the_smallest_extra_that_helps_is_named(arguments, package, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = without_extras(arguments)
    assert done.returncode == 2
    assert f"pip install 'maxatk[{extra}]'" in done.stderr
    assert package in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_flag_of_an_inner_command_names_that_command(capsys):
    with pytest.raises(SystemExit):
        main(["problems", "check", "problems.jsonl", "--workers", "2"])
    lines = capsys.readouterr().err
    assert "--verifier.workers" in lines
    assert set(re.findall(r"maxatk .*--help", lines)) == {"maxatk problems check --help"}
