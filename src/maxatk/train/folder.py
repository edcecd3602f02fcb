"""The folder of a trained model: who holds it, and which training may go on in it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from maxatk import folders
from maxatk.check import is_number
from maxatk.environment import is_first_process
from maxatk.errors import InvalidValueError
from maxatk.evaluation.folder import SCORES
from maxatk.models import fingerprint
from maxatk.verifier.settings import without_places
from maxatk.writing import OutFolder, json_mark

# The key of the record that has the digest of what a setting names.
_DIGEST_KEYS = {"model": "weights", "problems": "problems_sha256", "run": "run_sha256"}
# Settings of the trainer that no weight depends on: what is logged, and which checkpoints are kept.
_OF_LOG_AND_CHECKPOINTS = (
    "logging_steps", "report_to", "run_name", "save_steps", "save_strategy", "save_total_limit",
)  # fmt: skip


def out_folder(recipe: Any, command: str) -> OutFolder:
    """Return the folder of the model that a recipe trains, as what `maxatk COMMAND` writes."""
    mark = json_mark(folders.TRAIN_RECORD, lambda record: isinstance(record.get("recipe"), dict))
    return OutFolder(Path(recipe.out), command, (mark,), reads={"model": recipe.model})


def alone_in(folder: OutFolder) -> AbstractContextManager[None]:
    """Hold a folder for this process; of several that train together the first one holds it."""
    return folder.alone() if is_first_process() else contextlib.nullcontext()


def check_plan(folder: OutFolder, recipe: Any) -> None:
    """Raise InvalidValueError where a recipe cannot train into a folder, now or once it is free.

    The same training may be under way there.
    """
    folder.check(for_reading=True)
    refuse_to_go_on(folder.path, recipe, is_under_way=folder.is_held())


def has_finished(out: Path, recipe: Any) -> bool:
    """Return whether the training in a folder has ended, with no fewer steps than a recipe has.

    That it is a training of this recipe is for `refuse_to_go_on` to tell.
    """
    if not (out / folders.TRAIN_RECORD).is_file():
        return False
    record = folders.read_training(out)
    return _has_ended(record) and not longer_lengths(record, recipe)


def refuse_to_go_on(out: Path, recipe: Any, *, is_under_way: bool = False) -> None:
    """Raise InvalidValueError where a recipe cannot go on with the training in a folder.

    A training of which nothing is kept makes room for another, but not while it `is_under_way`.
    """
    if not (out / folders.TRAIN_RECORD).is_file():
        return
    record = folders.read_training(out)
    has_ended = _has_ended(record)
    if not has_ended and not is_under_way and folders.last_checkpoint(out) is None:
        return  # nothing of that training was kept, so that any other may take its place
    refuse_other_recipe(out, record, recipe)
    longer = longer_lengths(record, recipe)
    if longer:
        refuse_without_checkpoint(out)
    goes_on = longer or not has_ended
    if goes_on and not is_under_way:
        refuse_checkpoints_of_weights_alone(out, recipe)


def _has_ended(record: Mapping[str, Any]) -> bool:
    return "log_history" in record  # which is written when the training ends


def refuse_other_recipe(out: Path, record: Mapping[str, Any], recipe: Any) -> None:
    """Raise InvalidValueError where the trained weights would be others than by the record.

    A training may have become longer, and its files may have moved.
    """
    recorded = dict(record.get("recipe", {}))
    recorded["trainer"] = {**(recorded.get("trainer") or {}), **longer_lengths(record, recipe)}
    requested = dataclasses.asdict(recipe)
    digests = content_digests(recipe)
    for name, key in _DIGEST_KEYS.items():
        recorded_digest = record.get(key)
        digest = digests[key]
        if recorded_digest is None or digest is None:
            continue
        # What is read tells models and problems apart, not what folders and files are called.
        if digest == recorded_digest:
            recorded[name] = requested[name]
        else:
            recorded[name] = f"{recorded.get(name)} with {key} {recorded_digest}"
            requested[name] = f"{requested[name]} with {key} {digest}"
    folders.refuse_other_settings(out, _decisive(recorded), _decisive(requested))


def longer_lengths(record: Mapping[str, Any], recipe: Any) -> dict[str, Any]:
    """Return the lengths of training, in steps or epochs, that a recipe has above the record's."""
    if getattr(recipe, "rounds", 1) > 1:  # later rounds have drawn from the model of shorter ones
        return {}
    recorded = record.get("recipe", {}).get("trainer") or {}
    requested = recipe.trainer or {}
    longer = {}
    for name in ("max_steps", "num_train_epochs"):
        old = recorded.get(name)
        new = requested.get(name)
        if is_number(old) and is_number(new) and 0 < old < new:
            longer[name] = new
    return longer


def refuse_without_checkpoint(out: Path) -> None:
    """Raise InvalidValueError where a longer training has no checkpoint to begin with."""
    if folders.last_checkpoint(out) is None:
        raise InvalidValueError(
            f"{out}: holds no checkpoint from which its training could be extended; trainer."
            "save_strategy and save_steps say when one is kept"
        )


def refuse_checkpoints_of_weights_alone(out: Path, recipe: Any) -> None:
    """Raise InvalidValueError where the checkpoints lack the state of the optimizer."""
    if (recipe.trainer or {}).get("save_only_model"):
        raise InvalidValueError(
            f"{out}: its checkpoints hold the model alone (trainer.save_only_model), so no "
            "training goes on from them as if it had not been interrupted; remove them to begin "
            "anew, or train one of them as the `model` of another `out`"
        )


def content_digests(recipe: Any) -> dict[str, str | None]:
    """Return digests of what a recipe names, for its record: None for what is no local file."""
    run = getattr(recipe, "run", None)  # of a distillation alone
    return {
        "weights": fingerprint(recipe.model),
        "problems_sha256": folders.digest_if_file(recipe.problems),
        "run_sha256": None if run is None else folders.digest_if_file(f"{run}/{SCORES}"),
    }


def _decisive(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe without the settings that the trained weights do not depend on."""
    trainer = recipe.get("trainer") or {}
    deciding = {k: v for k, v in trainer.items() if k not in _OF_LOG_AND_CHECKPOINTS}
    return {**without_places(recipe), "trainer": deciding}
