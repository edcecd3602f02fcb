"""vLLM's real engine on a CPU, in an environment of its own: `make test-vllm`."""

import importlib.util
import os
from pathlib import Path

import pytest

SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_CI_ENV": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}


INSTALLED = importlib.util.find_spec("vllm") is not None


def pytest_configure():
    for name, value in SETTINGS.items() if INSTALLED else ():  # before anything imports vllm
        os.environ.setdefault(name, value)


def pytest_collection_modifyitems(items):
    for item in items if not INSTALLED else ():
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skip(reason="vllm is not installed"))


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """The built-in model, briefly trained, with its problems."""
    from maxatk.mini import MiniSettings, WarmStart, build_mini

    folder = tmp_path_factory.mktemp("mini")
    sizes = {"train_problems": 4, "test_problems": 12, "tests": 2}
    build_mini(folder, MiniSettings(**sizes, warm_start=WarmStart(problems=640, batch_size=32)))
    return folder
