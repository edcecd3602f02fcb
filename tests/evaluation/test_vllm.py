import importlib.util

import pytest

from maxatk.errors import MissingDependencyError
from maxatk.evaluation import ModelSettings, load_backend


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed")
def test_without_vllm_the_error_says_what_to_install(tiny_model):
    with pytest.raises(MissingDependencyError, match=r"needs the package 'vllm': pip install "):
        load_backend(str(tiny_model), ModelSettings(backend="vllm"))
