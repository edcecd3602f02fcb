"""The recipes for verl: its own configuration takes every line, and nothing is refused."""

import json
import os
import subprocess
from pathlib import Path

import pytest

verl = pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

from hydra import compose, initialize_config_dir  # noqa: E402

from maxatk.verl.options import (  # noqa: E402
    check_config,
    data_parallel,
    holds_whole_groups,
)

ROOT = Path(__file__).parents[2]
RECIPES = [
    *sorted((ROOT / "recipes" / "verl").glob("*.sh")),
    *sorted((ROOT / "upstream" / "verl-recipe").glob("*/run_*.sh")),
]


def configuration(recipe, tmp_path, **variables):
    """What verl makes of the arguments that a recipe hands to its driver."""
    shown = tmp_path / "python"
    shown.write_text("#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    shown.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(shown), **variables}
    done = subprocess.run(
        [str(recipe)], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    module, *overrides = json.loads(done.stdout)[1:]
    assert module == "verl.trainer.main_ppo"
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config")):
        return compose("ppo_trainer", overrides=overrides)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_a_recipe_is_taken(recipe, tmp_path):
    check_config(configuration(recipe, tmp_path))


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_paper_has_whole_groups_in_the_loss_on_one_and_two_nodes(nodes, tmp_path):
    (recipe,) = [path for path in RECIPES if "7b" in path.name]
    config = configuration(recipe, tmp_path, NODES=str(nodes))
    assert data_parallel(config) == 8 * nodes
    assert holds_whole_groups(config)
    assert check_config(config).needs_ratios
