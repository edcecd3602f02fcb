"""Running a training of `train` or `distill` to its end: its model and its record are written."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from maxatk import folders
from maxatk.environment import environment
from maxatk.errors import counted
from maxatk.named_files import files_named
from maxatk.settings import masked
from maxatk.train.folder import content_digests
from maxatk.train.launch import process_count
from maxatk.train.trainer import MaxAtKTrainer

ADAPTER = "adapter"
"""The folder of the adapter inside the folder of the trained model."""


def fit(
    trainer: Any, recipe: Any, out: Path, *, conditions: Mapping[str, Any] | None = None
) -> None:
    """Train into the folder `out`, on from its last checkpoint; write model and record there.

    The record has the `conditions` of the run beside what holds for every training.
    """
    trainer.remove_callback(PrinterCallback)
    started = time.monotonic()
    is_main = trainer.is_world_process_zero()
    record = _record_at_start(recipe, conditions or {})
    checkpoint = folders.last_checkpoint(out)
    if is_main:
        if checkpoint is not None:
            _warn_of_changes(out, record)
        folders.write_json(out / folders.TRAIN_RECORD, record)
    trainer.train(resume_from_checkpoint=checkpoint)
    if recipe.peft is None:
        trainer.save_model(str(out))
    else:
        trainer.save_model(str(out / ADAPTER))
        if is_main:
            _write_merged_model(trainer, out)
    if isinstance(trainer, MaxAtKTrainer):
        trainer.create_model_card(model_name=out.name)
        record["seconds"] = round(time.monotonic() - started, 3)  # a distillation has sampled too
    record |= _log_of(trainer, checkpoint)
    if is_main:
        folders.write_json(out / folders.TRAIN_RECORD, record)


def _record_at_start(recipe: Any, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a training that has not ended, which has no log yet."""
    settings = dataclasses.asdict(recipe)
    record = {
        "recipe": masked(settings),
        **content_digests(recipe),
        "environment": environment(),
        "processes": process_count(),
        **conditions,
    }
    files = files_named(settings)
    if files:
        record["files"] = files
    return record


def _warn_of_changes(out: Path, record: Mapping[str, Any]) -> None:
    """Warn where processes, functions or templates are others than those of the steps before.

    It may be meant: a reward that failed is repaired, and the training goes on.
    """
    earlier_record = folders.read_training(out)
    processes = earlier_record.get("processes", record["processes"])
    if processes != record["processes"]:
        warnings.warn(
            f"{out}: its training goes on in {counted(record['processes'], 'process')} and not in "
            f"{processes} as before, so that its batches have another size",
            stacklevel=3,
        )
    earlier_files = earlier_record.get("files", {})
    files = record.get("files", {})
    changed = [name for name, digest in files.items() if earlier_files.get(name, digest) != digest]
    if changed:
        warnings.warn(
            f"{out}: its training goes on with another content of {', '.join(changed)} than it "
            "had before; another `out` begins anew with it",
            stacklevel=3,
        )


def _write_merged_model(trainer: Any, out: Path) -> None:
    """Write the model with its adapter merged into the weights, and its tokenizer."""
    from peft import AutoPeftModelForCausalLM

    # The model is loaded once more, on the CPU: it has no shards of the run, and no accelerator.
    dtype = trainer.model.get_base_model().dtype
    model = AutoPeftModelForCausalLM.from_pretrained(out / ADAPTER, dtype=dtype)
    model.merge_and_unload().save_pretrained(out)
    trainer.processing_class.save_pretrained(out)


def _log_of(trainer: Any, checkpoint: str | None) -> dict[str, Any]:
    """Return the log of a trainer for the record, and the checkpoint that it has resumed from."""
    log = trainer.state.log_history
    resumed_from = {}
    if checkpoint is not None:
        resumed_from = {"resumed_from": Path(checkpoint).name}
        # The summary at the end of the log is of the steps since that checkpoint alone, as are the
        # seconds of the record.
        log = [row for row in log if "train_loss" not in row]
    return {**resumed_from, "log_history": [folders.writable(row) for row in log]}
