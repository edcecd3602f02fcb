"""How long `maxatk view` needs for a training of 1,000 steps with 64 completions each.

The record is made up: eight groups of eight completions a step, with programs of about 300
characters, and a row of the log a step. Printed are wall and CPU seconds of each request that the
page makes when it opens, in the order in which it makes them.

    python bench/view.py [STEPS]
"""

import json
import random
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from threading import Thread

from maxatk.training.group_log import GROUPS, GroupLog, group_row

LINES = [f"    total = total + {n} * value" for n in range(40)]
HEAD = "def f(value):"
TAIL = "    return total"


def write(folder: Path, steps: int) -> Path:
    """Write the record of a training that improves, and return its folder."""
    rng = random.Random(0)
    folder = folder / "training"
    about = {"method": "bon_loo1", "k": 4, "num_generations": 8, "max_steps": steps}
    log = GroupLog(folder / GROUPS, step=0, about=about)
    for step in range(1, steps + 1):
        rows = []
        chance = 0.2 + 0.5 * step / steps
        for number in range(8):
            samples = [
                {
                    "text": "\n".join([HEAD, *rng.choices(LINES, k=8), TAIL]),
                    **{"reward": reward, "advantage": reward - chance, "tokens": 80},
                    **{"passed": int(4 * reward), "tests": 4, "outcome": "passed"},
                }
                for reward in (float(rng.random() < chance) for _ in range(8))
            ]
            name = f"problem-{(8 * step + number) % 500}"
            rows.append(group_row(step, name=name, prompt=f"Solve {name}.", k=4, samples=samples))
        means = {f"max@{k}": 1 - (1 - chance) ** k + 0.1 * rng.random() for k in (1, 2, 4, 8)}
        logged = {
            "loss": rng.random(),
            "reward": chance + 0.1 * rng.random(),
            "entropy": 1 / chance,
        }
        logged |= {"kl": 0.1 * rng.random(), "grad_norm": rng.random(), "step_time": 1.0}
        logged |= {"ratio/mean_abs_delta": rng.random(), "completions/distinct": rng.random()}
        log.append([*rows, {"step": step, "log": {**logged, **means}}])
    return folder


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name), steps)
        size = (folder / GROUPS).stat().st_size / 2**20
        print(f"{steps} steps of 64 completions, {size:.0f} MiB")
        wall_begun = time.perf_counter()
        cpu_begun = time.process_time()

        def print_times(what: str) -> None:
            wall = time.perf_counter() - wall_begun
            cpu = time.process_time() - cpu_begun
            print(f"{what:32} at {wall:6.2f} s, CPU {cpu:6.2f} s")

        from maxatk.view.runs import runs_in
        from maxatk.view.server import View

        print_times("imported")
        view = View(runs_in({"training": folder}))
        Thread(target=view.serve_forever, daemon=True).start()
        print_times("read")

        def ask(name: str, **query: object) -> dict:
            url = f"{view.address}api/{name}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url) as answer:
                return json.loads(answer.read())

        figures = ask("state")["figures"]
        print_times("state")
        ask("tables", most=50)
        print_times("tables")
        for key, _ in figures:
            ask("figure", key=key)
            print_times(f"figure {key}")
        view.shutdown()


if __name__ == "__main__":
    main()
