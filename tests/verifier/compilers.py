"""Marks for tests that need a compiler, which a machine may lack."""

import shutil

import pytest

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None,
    reason="there is no compiler for C++",
)
needs_c_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None and shutil.which("clang") is None,
    reason="there is no compiler for C",
)
