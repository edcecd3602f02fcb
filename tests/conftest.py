import contextlib
import gc
import io
import logging
import os
import signal
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase
from processes import family, kill, patience

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.hookimpl(tryfirst=True)  # before the plug-in that reads PYTEST_TIMEOUT
def pytest_configure():
    """Give the processes that tests start this copy of the package, patience and Ctrl-C."""
    os.environ.setdefault("PYTEST_TIMEOUT", str(patience(300)))
    # Two processes with two threads each on two cores wait for each other: up to 3 times slower.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with contextlib.suppress(ImportError):  # the environment of vLLM has no hypothesis
        from hypothesis import settings

        settings.register_profile("patient", settings.default, deadline=None)
        settings.load_profile("patient")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background, and inherited
        signal.signal(signal.SIGINT, signal.default_int_handler)
    source = str(Path(__file__).parents[1] / "src")
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage among what is imported, now and later.

    Looking through the modules of torch and transformers took a fifth of the time of collection,
    and half a second at the end of every training, where accelerate collects.
    """
    gc.disable()
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return result


def pytest_collection_modifyitems(items):
    """Put the longest files first, so that no worker ends alone with one of them."""
    longest = ("test_tutorials.py", "test_study.py", "test_site.py", "test_damaged_files.py")
    items.sort(key=lambda item: item.path.name not in longest)


@pytest.fixture(scope="session")
def real_data():
    """Return the path of a real data set, kept outside the repository; skip where there is none."""

    def path(name):
        file = Path(os.environ.get("MAXATK_TEST_DATA", DEFAULT_DATA)) / name
        return file if file.is_file() else pytest.skip(f"the data set {file} is not here")

    return path


@pytest.fixture
def maxatk(tmp_path):
    """Return a function that runs the command line to its end in an empty folder, in this process.

    It returns what `subprocess.run` would: a new interpreter takes a second to start.
    """
    from maxatk.cli.main import main

    def run(*arguments):
        command = [str(argument) for argument in arguments]
        out = io.StringIO()
        err = io.StringIO()
        root = logging.getLogger()
        handlers = root.handlers
        root.handlers = []  # without pytest's handlers warnings are printed
        try:
            with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
                patch.chdir(tmp_path)
                status = main(command)
        except SystemExit as ended:  # of tyro
            status = ended.code
        finally:
            root.handlers = handlers
        return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def cpuinfo(monkeypatch):
    """Return a function that says what the system tells of its CPU."""
    read_text = Path.read_text

    def tell(text):
        def read(path, *arguments, **options):
            is_asked_for = str(path) == "/proc/cpuinfo"
            return text if is_asked_for else read_text(path, *arguments, **options)

        monkeypatch.setattr(Path, "read_text", read)

    return tell


@pytest.fixture
def scoring(tmp_path):
    """Return a function that writes samples for one problem and gives the arguments of `score`."""

    def arguments(*programs, name="score", time_limit=1):
        tests = (TestCase(input="2\n", output="4\n"), TestCase(input="3\n", output="6\n"))
        write_jsonl(tmp_path / f"{name}-problems.jsonl", [Problem("p", "", tests).to_json()])
        samples = (Sample("p", i, program).to_json() for i, program in enumerate(programs))
        write_jsonl(tmp_path / f"{name}-samples.jsonl", samples)
        flags = {
            "--samples": tmp_path / f"{name}-samples.jsonl",
            "--problems": tmp_path / f"{name}-problems.jsonl",
            "--out": tmp_path / name,
            "--verifier.workers": 1,
            "--verifier.time-limit": time_limit,
        }
        return ("score", *(str(part) for pair in flags.items() for part in pair))

    return arguments


LEAVING = """
import subprocess
from pathlib import Path
Path(__file__).with_suffix(".pid").write_text(str(subprocess.Popen(["sleep", "60"]).pid))
def reward(completions, **_):
    return [1.0 for _ in completions]
"""


@pytest.fixture
def leaving(tmp_path):
    """Return a reward whose file starts a process that goes on, and what asks whether it does."""
    file = tmp_path / "leaving.py"
    file.write_text(LEAVING)

    def process():
        return int(file.with_suffix(".pid").read_text())

    def goes_on():
        return Path(f"/proc/{process()}/cmdline").read_bytes() != b""  # "" of one that has ended

    yield f"{file}:reward", goes_on
    os.kill(process(), signal.SIGKILL)


@pytest.fixture
def started():
    """Return a function that starts a process; what is left of it at the end is killed."""
    processes = []

    def start(*command, **options):
        process = subprocess.Popen(list(command), text=True, **options)
        processes.append(process)
        return process

    yield start
    for process in processes:
        kill(family(process.pid))
        process.wait()
