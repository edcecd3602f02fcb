"""The shards of one run have the same settings, but for what is a shard's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.evaluation.folder import MANIFEST, SCORES, grown, recorded_settings, rescored
from maxatk.evaluation.shards import Shard, shard_folders
from maxatk.folders import differing_settings
from maxatk.settings import masked

SHARD = "shard"
"""The setting that names the shard in the manifest of its folder."""


def check_siblings(
    folder: Path, settings: Mapping[str, Any], *, samples: Path | None = None
) -> None:
    """Raise InvalidValueError where a shard beside this one is of another number or settings.

    It may have fewer samples of a problem, or of the file `samples`, because it can grow as well.
    """
    shard = Shard.read(settings[SHARD])
    for sibling, path in shard_folders(folder.parent).items():
        if sibling.of != shard.of:
            raise InvalidValueError(
                f"shard: {folder.parent} has shards of {sibling.of}, got '{shard}'; use another "
                "folder, or remove them"
            )
        if sibling != shard and (path / MANIFEST).is_file():
            before = grown(recorded_settings(path / MANIFEST), settings, (), samples)
            if not (path / SCORES).is_file():
                before = rescored(before, settings)
            refuse_differences(path, before, settings)


def refuse_differences(
    sibling: Path, before: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Raise InvalidValueError listing where settings differ from those of a sibling's manifest."""
    as_recorded = json.loads(json.dumps(masked(settings)))
    differences = "\n  ".join(differing_settings(run_settings(before), run_settings(as_recorded)))
    if differences:
        raise InvalidValueError(
            f"{sibling}: holds a shard of other settings than {settings[SHARD]}; all shards of a "
            f"run have the same, on the same kind of machine:\n  {differences}"
        )


def run_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a shard that all shards share.

    Not its number, and not how many samples are under way at a time: a backend chooses that by the
    memory that is free, and it changes a sample by rounding at most.
    """
    common = {name: value for name, value in settings.items() if name != SHARD}
    if isinstance(common.get("model"), Mapping):
        model = common["model"].items()
        common["model"] = {name: value for name, value in model if name != "batch_size"}
    return common
