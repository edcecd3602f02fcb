"""The page of a large comparison: its size, the time to write it, and to open it in Chromium.

Two models, each with 256 samples of 1,055 problems, as in `bench/metrics.py`; three failed samples
of every problem are stored.

Usage: python bench/report.py [FOLDER]. The files are made once, in FOLDER if it is given.
"""

import json
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from maxatk.evaluation import results_of_folder
from maxatk.report import write_report
from metrics import PROBLEMS, SAMPLES, functions

OPENED = """<script>addEventListener("load", () => setTimeout(() => {
document.body.dataset.found = Math.round(performance.now()); }));</script></body>"""
ROUNDS = 3


def make(folder, seed, sources):
    """Write the folder of a run whose problems have chances of their own."""
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    files = {
        name: (folder / f"{name}.jsonl").open("w")
        for name in ("samples", "scores", "failures", "prompts")
    }

    def write(name, **row):
        files[name].write(json.dumps(row) + "\n")

    for number in range(PROBLEMS):
        problem_id = f"test-{number:05d}"
        write("prompts", problem_id=problem_id, prompt=sources[number % len(sources)])
        chance = draw.betavariate(0.4, 1.6)
        failed = 0
        for sample in range(SAMPLES):
            key = {"problem_id": problem_id, "sample": sample}
            right = draw.random() < chance
            reward = 1.0 if right else draw.choice((0.0, 0.25, 0.5))
            outcome = "passed" if right else "wrong_answer"
            source = sources[(31 * number + sample) % len(sources)]
            write("samples", **key, completion=source, tokens=100, entropy=0.3)
            tests = {"passed": round(4 * reward), "total": 4}
            write("scores", **key, reward=reward, **tests, outcome=outcome, seconds=0.01)
            if not right and failed < 3:
                failed += 1
                texts = {"input": "1 2\n" * 40, "expected": "3\n" * 90, "got": "4\n" * 90}
                write("failures", **key, test=1, outcome="wrong answer", **texts)
    for file in files.values():
        file.close()
    (folder / "results.json").write_text(json.dumps(results_of_folder(folder).to_json()))


def milliseconds_to_open(browser, page):
    """Return the time from the start of the navigation until the page has been laid out."""
    probe = page.with_name("probe.html")
    text = page.read_text(encoding="utf-8")
    end = text.rindex("</body>")
    probe.write_text(text[:end] + OPENED + text[end + len("</body>") :], encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r'data-found="(\d+)"', done.stdout)[1])


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    sources = list(functions())
    for seed, name in enumerate(("base", "tuned")):
        if not (root / name / "results.json").is_file():
            make(root / name, seed, sources)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    page = write_report({n: root / n for n in ("base", "tuned")}, root / "report.html")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"page     {page.stat().st_size / 1e6:.1f} MB")
    print(
        f"written  in {used.ru_utime - before:.1f} s of CPU time, {used.ru_maxrss / 1024:,.0f} MiB"
    )
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("opened   not measured: no Chromium on this machine")
        return
    times = sorted(milliseconds_to_open(browser, page) for _ in range(ROUNDS))
    print(f"opened   in {', '.join(map(str, times))} ms")


if __name__ == "__main__":
    main()
