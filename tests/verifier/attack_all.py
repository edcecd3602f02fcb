"""Run all attacks in a process of its own, and print as JSON what did not end as it must."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from maxatk.verifier import Verifier
from verifier import attacks, cpp_attacks

# Where the host has no private root there is no folder to write to: a refusal is the right end.
NEEDS_SCRATCH = (
    "cross-test: files",
    "cross-test: closed",
    "cross-test: folders",
    "cross-test: names",
)

if __name__ == "__main__":
    with Verifier(workers=2, time_limit=1.0, memory_limit=1 << 29) as verifier:
        chosen = {
            name: attack
            for name, attack in attacks.ALL.items()
            if verifier.isolation["scratch_folder"] is True or not name.startswith(NEEDS_SCRATCH)
        }
        failures = attacks.fails(verifier, chosen)
        in_cpp = {f"C++: {name}": attack for name, attack in cpp_attacks.ALL.items()}
        # Where a compiler cannot be isolated, no program in C++ is run.
        answer = verifier.verify("int main() {}", [attacks.HELD], language="cpp")
        builds = answer.scorable
        if builds:
            failures |= attacks.fails(verifier, in_cpp)
        layers = verifier.isolation
    report = {"attacks": len(chosen), "fails": failures, "layers": layers}
    print(json.dumps({**report, "in_cpp": len(in_cpp) if builds else answer.tests[0].stderr}))
