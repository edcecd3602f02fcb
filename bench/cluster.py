"""CPU time of programs verified on a Ray cluster of one node, over that in one process.

Needs Ray: run it in the environment of `make test-verl`. Start-up is not counted.
"""

import importlib.util
import time

from cpu import Counted, own_cpu_seconds
from maxatk import TestCase
from maxatk.engines.cluster import ClusterSettings, verifying
from maxatk.engines.cluster.shards import connected
from maxatk.engines.cluster.verifying import ClusterVerifier, VerifyingShard
from maxatk.verifier import Job, VerifierSettings

PROGRAMS, TESTS, TURNS = 400, 10, 3
MOST = 1.10
SETTINGS = VerifierSettings(workers=1)


def of_tests(verdicts):
    """CPU seconds of the tests' own processes."""
    return sum(test.cpu_seconds for verdict in verdicts for test in verdict.tests)


class MeasuredShard(Counted, VerifyingShard):
    """Counts from when it has verified a first program."""

    def warm_up(self):
        self.verify([("print(1)", 0, "tokens", None, None, None, None)], jobs(0, 1)[0].tests)


def jobs(turn, count=PROGRAMS):
    """Different small programs of ten tests."""
    tests = tuple(TestCase(input=f"{i}\n", output=f"{i + 1}\n") for i in range(TESTS))
    program = "total = int(input())\nfor _ in range(1):\n    total += 1\nprint(total)  # {} {}"
    return [Job(program.format(turn, number), tests) for number in range(count)]


def in_one_process(turn):
    with SETTINGS.open() as verifier:
        verifier.verify_many(jobs(0, 1))
        before = own_cpu_seconds()
        verdicts = verifier.verify_many(jobs(turn))
        return own_cpu_seconds() - before + of_tests(verdicts)


def on_a_cluster(ray, turn):
    verifying.VerifyingShard = MeasuredShard
    with ClusterVerifier(ray, ClusterSettings(address="local"), SETTINGS) as verifier:
        before, started = own_cpu_seconds(), time.perf_counter()
        verdicts = verifier.verify_many(jobs(turn))
        wall = time.perf_counter() - started
        shard = ray.get(verifier._shards.actors[0].used.remote())
        return own_cpu_seconds() - before, shard + of_tests(verdicts), wall


def main():
    if importlib.util.find_spec("ray") is None:
        print("left out: the package 'ray' is not installed here; see make test-verl")
        return
    ratios = []
    with connected(ClusterSettings(address="local")) as ray:
        for turn in range(1, TURNS + 1):
            here = in_one_process(turn)
            driver, shard, wall = on_a_cluster(ray, turn)
            ratios.append((driver + shard) / here)
            parts = f"driver {driver:.2f} s, shard {shard:.2f} s, wall {wall:.1f} s"
            print(f"one process {here:.2f} s; {parts}; ratio {ratios[-1]:.2f}", flush=True)
    median = sorted(ratios)[TURNS // 2]
    print(f"CPU time on a cluster / in one process: {median:.2f} (aim: at most {MOST})")


if __name__ == "__main__":
    main()
