"""The package as a stranger installs it: a wheel of this tree, and its metadata."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from maxatk import __version__
from processes import patience

ROOT = Path(__file__).parents[1]
PARTS = ("src", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    run("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tree / "out", tree)
    (built,) = (tree / "out").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    run("pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


def run(module, *arguments, path=None, cwd=None):
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)]
        if module
        else [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=patience(120),
        env=environment,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_python_of_the_readme_runs_from_the_wheel(installed, tmp_path):
    shown = run(None, ROOT / ".ci" / "readme.py", ROOT / "README.md", path=installed, cwd=tmp_path)
    assert f"from {installed / 'maxatk'}: 4 values" in shown


def test_the_wheel_carries_recipes_templates_and_types(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "recipes/mini/demo.yaml",
        "report/templates/report.html",
        "view/templates/view.js",
        "py.typed",
    ):
        assert f"maxatk/{name}" in names
    shown = run("zipfile", "-l", wheel)
    assert "entry_points.txt" in shown


def test_the_metadata_names_authors_licence_and_addresses(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    metadata = archive.read(name).decode()
    for line in (
        f"Version: {__version__}",
        "Author: maxatk contributors",
        "License-Expression: Apache-2.0",
        "Project-URL: Paper, https://arxiv.org/abs/2510.23393",
        "Requires-Python: >=3.10",
        "Description-Content-Type: text/markdown",
    ):
        assert line in metadata.splitlines(), line


def test_the_version_is_one_and_the_same():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
