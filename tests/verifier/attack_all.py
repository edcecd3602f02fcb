"""Run all attacks in a process of its own, and print as JSON what did not end as it must."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from maxatk.verifier import Verifier
from verifier import attacks

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
        found = attacks.fails(verifier, chosen)
        layers = verifier.isolation
    print(json.dumps({"attacks": len(chosen), "fails": found, "layers": layers}))
