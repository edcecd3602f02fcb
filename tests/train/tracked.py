"""Train three steps with a tracker and print what was logged and what the tracker holds, as JSON.

Started by `test_trackers.py`, because trackers read their settings when they are imported:
tracked.py TRACKER MODEL OUT COMPLETIONS, the last being 1 where TRL sends its own table.
"""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset

from maxatk.train import MaxAtKTrainer
from train.conftest import PROMPTS, config, text_reward


def wandb_values() -> dict:
    """The newest value of every metric."""
    import wandb

    return dict(wandb.run.summary)


def trackio_values() -> dict:
    """The newest value of every metric."""
    from trackio.sqlite_storage import SQLiteStorage

    (project,) = SQLiteStorage.get_projects()
    (run,) = SQLiteStorage.get_runs(project)
    values = {}
    for line in SQLiteStorage.get_logs(project, run):
        values.update(line)
    return values


def wandb_texts() -> list[dict]:
    """The rows of every table of groups."""
    import wandb

    rows = []
    tables = Path(wandb.run.dir, "media", "table").glob("groups_*.json")
    for path in sorted(tables, key=lambda path: int(path.name.split("_")[1])):
        table = json.loads(path.read_text())
        rows += [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    return rows


def trackio_texts() -> list[dict]:
    """The traces, oldest first, with what the user said and what came back."""
    from trackio.sqlite_storage import SQLiteStorage

    (project,) = SQLiteStorage.get_projects()
    (run,) = SQLiteStorage.get_runs(project)
    traces = SQLiteStorage.get_traces(project, run)
    traces.sort(key=lambda trace: (trace["step"], int(trace["id"].rpartition(":")[2])))
    texts = []
    for trace in traces:
        user, assistant = trace["messages"]
        assert (user["role"], assistant["role"]) == ("user", "assistant")
        exchange = {"prompt": user["content"], "text": assistant["content"]}
        texts.append({**trace["metadata"], **exchange})
    return texts


TEXTS = {"wandb": wandb_texts, "trackio": trackio_texts}
VALUES = {"wandb": wandb_values, "trackio": trackio_values}


def main(tracker: str, model: str, out: Path, completions: bool) -> None:
    torch.set_num_threads(1)
    trainer = MaxAtKTrainer(
        model=model,
        reward_funcs=text_reward,
        args=config(
            out,
            method="bon_off_policy_exact",
            num_iterations=2,
            max_steps=3,
            log_groups=2,
            report_to=tracker,
            log_completions=completions,
        ),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
    )
    trainer.train()
    logged = {}
    for row in trainer.state.log_history:
        logged.update(row)
    numbers = {
        key: value for key, value in VALUES[tracker]().items() if isinstance(value, (int, float))
    }
    (out / "values.json").write_text(
        json.dumps({"logged": logged, "kept": numbers, "texts": TEXTS[tracker]()})
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] == "1")
