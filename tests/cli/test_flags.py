"""Every flag is described, the shell completes it, and help needs no more than the extra cli."""

import ast
import re
import subprocess
import sys

import pytest

from maxatk.cli.main import COMMANDS, main

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


@pytest.fixture(scope="module")
def script():
    done = subprocess.run(
        [sys.executable, "-m", "maxatk", "completion", "bash"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def flags(script):
    """Return (command, flags, text) of every flag of every command, from its own parser."""
    found = re.search("^COMPLETION_SPEC = (.*)$", script, re.MULTILINE)
    return list(walk(ast.literal_eval(found[1]), ()))


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
        said = re.fullmatch(r"(.+) \((?:default: .*|required.*|repeatable)\)", text)
        assert said, f"{command} {names[0]} has no text or no default: {text!r}"
        assert re.search("[a-z]{3}", said[1])


@pytest.mark.parametrize("name", UNITS)
def test_what_is_measured_has_its_unit(flags, name):
    texts = [text for _, names, text in flags if names[0].rpartition(".")[2].strip("-") == name]
    assert texts
    for text in texts:
        assert UNITS[name] in text.lower()


def completed(script, *words):
    probe = (
        'COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _tyro_maxatk; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{probe}", "bash", "maxatk", *words],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n")) - {""}


def test_bash_completes_commands_flags_and_values(script):
    assert completed(script, "") >= set(COMMANDS)
    assert completed(script, "ev") == {"eval"}
    assert completed(script, "eval", "--mod") == {"--model"}
    assert completed(script, "eval", "--backend", "") == {"auto", "hf", "openai", "vllm"}
    assert completed(script, "problems", "prep") == {"prepare"}
    assert completed(script, "problems", "show", "--fo") == {"--format"}
    assert all(word.startswith("-") for word in completed(script, "compare", "-"))
    assert "complete -o default -F _tyro_maxatk maxatk" in script  # file names otherwise


def test_zsh_gets_a_script_of_its_own(capsys):
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef maxatk\n")


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
