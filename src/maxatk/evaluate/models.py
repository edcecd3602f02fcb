"""Names of models: a local folder or a name on the hub, told apart before anything is loaded."""

from __future__ import annotations

from pathlib import Path

from maxatk.errors import MissingFileError


def refuse_missing_folder(model: str) -> None:
    """Raise MissingFileError where `model` means a local folder that holds no model.

    A name is taken for a folder when it is one, when it starts with . or / or ~, has more than
    one slash, or lies in a folder that exists here; anything else may be a name on the hub.
    """
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise MissingFileError(f"model: the folder {model!r} holds no config.json")
        return
    beside = "/" in model and folder.parent.is_dir()
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or beside:
        raise MissingFileError(f"model: there is no folder {model!r}")
