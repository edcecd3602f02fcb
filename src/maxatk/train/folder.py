"""The folder of a trained model, of `train` and `distill`: held, continued or found finished."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from maxatk import folders
from maxatk.check import is_number
from maxatk.environment import environment, is_first_process
from maxatk.errors import InvalidValueError, counted
from maxatk.evaluation.folder import SCORES
from maxatk.models import fingerprint
from maxatk.named_files import files_named
from maxatk.settings import masked
from maxatk.train.launch import process_count
from maxatk.train.trainer import MaxAtKTrainer
from maxatk.verifier.settings import without_places
from maxatk.writing import OutFolder

ADAPTER = "adapter"
"""The folder of the adapter inside the folder of the trained model."""

# Of the record, by the setting.
_CONTENT_KEYS = {"model": "weights", "problems": "problems_sha256", "run": "run_sha256"}
# Settings of the trainer that no weight depends on: what is logged, and which checkpoints are kept.
_OF_LOG_AND_CHECKPOINTS = (
    "logging_steps", "report_to", "run_name", "save_steps", "save_strategy", "save_total_limit",
)  # fmt: skip


def out_folder(recipe: Any, command: str) -> OutFolder:
    """Return the folder of the model that a recipe trains, as what `maxatk COMMAND` writes."""
    return OutFolder(
        Path(recipe.out), command, (folders.TRAIN_RECORD,), reads={"model": recipe.model}
    )


def alone_in(folder: OutFolder) -> AbstractContextManager[None]:
    """Hold a folder for this process; of several that train together the first one holds it."""
    return folder.alone() if is_first_process() else contextlib.nullcontext()


def check_plan(folder: OutFolder, recipe: Any) -> None:
    """Raise InvalidValueError where a recipe cannot train into a folder, now or once it is free.

    The same training may be under way there.
    """
    folder.check(for_reading=True)
    finished(folder.path, recipe, is_under_way=folder.is_held())


def finished(out: Path, recipe: Any, *, is_under_way: bool = False) -> bool:
    """Say whether a recipe's training has ended; raise InvalidValueError for that of another.

    One of which nothing is kept makes room for another, but not while it `is_under_way`.
    """
    if not (out / folders.TRAIN_RECORD).is_file():
        return False
    record = folders.read_training(out)
    has_ended = "log_history" in record  # which is written when the training ends
    if not has_ended and not is_under_way and folders.last_checkpoint(out) is None:
        return False  # nothing of that training was kept, so that any other may take its place
    before = record.get("recipe", {})
    now = dataclasses.asdict(recipe)
    longer = {}
    if now.get("rounds", 1) == 1:  # later rounds have drawn from the model of the shorter ones
        longer = _longer(before.get("trainer") or {}, now.get("trainer") or {})
    extended = {**before, "trainer": {**(before.get("trainer") or {}), **longer}}
    contents = _contents(recipe)
    for name, key in _CONTENT_KEYS.items():
        content_before = record.get(key)
        content = contents[key]
        if content_before is None or content is None:
            continue
        # What is read tells models and problems apart, not what folders and files are called.
        extended[name] = f"{before.get(name)} with {key} {content_before}"
        now[name] = f"{now[name]} with {key} {content}"
        if content == content_before:
            extended[name] = now[name]
    folders.refuse_other_settings(out, _decisive(extended), _decisive(now))
    if longer and folders.last_checkpoint(out) is None:
        raise InvalidValueError(
            f"{out}: holds no checkpoint from which its training could be extended; trainer."
            "save_strategy and save_steps say when one is kept"
        )
    goes_on = longer or not has_ended
    if goes_on and not is_under_way and (now.get("trainer") or {}).get("save_only_model"):
        raise InvalidValueError(
            f"{out}: its checkpoints hold the model alone (trainer.save_only_model), so no "
            "training goes on from them as if it had not been interrupted; remove them to begin "
            "anew, or train one of them as the `model` of another `out`"
        )
    return has_ended and not longer


def _decisive(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe without the settings that the trained weights do not depend on."""
    trainer = recipe.get("trainer") or {}
    deciding = {k: v for k, v in trainer.items() if k not in _OF_LOG_AND_CHECKPOINTS}
    return {**without_places(recipe), "trainer": deciding}


def _contents(recipe: Any) -> dict[str, str | None]:
    """Return digests of what a recipe names, for its record: None for what is no local file."""
    run = getattr(recipe, "run", None)  # of a distillation alone
    return {
        "weights": fingerprint(recipe.model),
        "problems_sha256": folders.digest_if_file(recipe.problems),
        "run_sha256": None if run is None else folders.digest_if_file(f"{run}/{SCORES}"),
    }


def _longer(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lengths of a training that are larger now than they were."""
    longer = {}
    for name in ("max_steps", "num_train_epochs"):
        old = before.get(name)
        new = now.get(name)
        if is_number(old) and is_number(new) and 0 < old < new:
            longer[name] = new
    return longer


def _warn_of_changes(out: Path, now: Mapping[str, Any]) -> None:
    """Warn where processes, functions or templates are others than those of the steps before.

    It may be meant: a reward that failed is repaired, and the training goes on.
    """
    record = folders.read_training(out)
    processes = record.get("processes", now["processes"])
    if processes != now["processes"]:
        warnings.warn(
            f"{out}: its training goes on in {counted(now['processes'], 'process')} and not in "
            f"{processes} as before, so that its batches have another size",
            stacklevel=3,
        )
    before = record.get("files", {})
    files = now.get("files", {})
    changed = [name for name, digest in files.items() if before.get(name, digest) != digest]
    if changed:
        warnings.warn(
            f"{out}: its training goes on with another content of {', '.join(changed)} than it "
            "had before; another `out` begins anew with it",
            stacklevel=3,
        )


def fit(trainer: Any, recipe: Any, out: Path, about: Mapping[str, Any]) -> None:
    """Train into the folder `out`, on from its last checkpoint; write model and record there."""
    trainer.remove_callback(PrinterCallback)
    started = time.monotonic()
    main = trainer.is_world_process_zero()
    settings = dataclasses.asdict(recipe)
    files = files_named(settings)
    record = {
        "recipe": masked(settings),
        **_contents(recipe),
        "environment": environment(),
        "processes": process_count(),
        **about,
        **({"files": files} if files else {}),
    }
    checkpoint = folders.last_checkpoint(out)
    if main:
        if checkpoint is not None:
            _warn_of_changes(out, record)
        folders.write_json(out / folders.TRAIN_RECORD, record)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model(str(out if recipe.peft is None else out / ADAPTER))
    if recipe.peft is not None and main:
        from peft import AutoPeftModelForCausalLM

        # Loaded once more, on the CPU: no shards of the run, and no accelerator.
        dtype = trainer.model.get_base_model().dtype
        model = AutoPeftModelForCausalLM.from_pretrained(out / ADAPTER, dtype=dtype)
        model.merge_and_unload().save_pretrained(out)
        trainer.processing_class.save_pretrained(out)
    if isinstance(trainer, MaxAtKTrainer):
        trainer.create_model_card(model_name=out.name)
        record["seconds"] = round(time.monotonic() - started, 3)  # a distillation has sampled too
    history = trainer.state.log_history
    if checkpoint is not None:  # both are then of the steps since that checkpoint alone
        record["resumed_from"] = Path(checkpoint).name
        history = [row for row in history if "train_loss" not in row]
    record["log_history"] = [folders.writable(row) for row in history]
    if main:
        folders.write_json(out / folders.TRAIN_RECORD, record)
