import pytest

from maxatk.mini import MiniSettings, WarmStart, build_mini

TINY = MiniSettings(
    train_problems=6,
    test_problems=5,
    tests=2,
    seed=3,
    warm_start=WarmStart(problems=640, batch_size=32),
)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny():
    return TINY


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return a folder with the embedded default in small; tests only read it."""
    folder = tmp_path_factory.mktemp("mini")
    build_mini(folder, TINY)
    return folder
