from pathlib import Path

import pytest
import yaml

import maxatk
from maxatk.cli.demo import DemoRecipe
from maxatk.cli.recipe import read_recipe
from maxatk.settings import from_mapping

FOLDER = Path(maxatk.__file__).parent / "recipes"
DEMOS = sorted(FOLDER.glob("mini/*.yaml"))


def test_the_recipes_at_the_root_are_those_of_the_package():
    assert len(DEMOS) >= 2
    root = Path(__file__).parents[1] / "recipes"
    assert sorted(root.glob("mini/*.yaml")) == [root / p.relative_to(FOLDER) for p in DEMOS]
    assert root.resolve() == FOLDER.resolve()


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_is_a_mapping_and_says_what_it_is(path):
    text = path.read_text()
    assert text.startswith("# ")
    assert isinstance(yaml.safe_load(text), dict)


@pytest.mark.parametrize("path", DEMOS, ids=lambda path: path.stem)
def test_demo_recipes_are_valid_down_to_the_trainer(path, tmp_path):
    from maxatk.train import MaxAtKConfig

    demo = from_mapping(DemoRecipe, read_recipe(path), where="recipe")
    assert {"grpo", "bon_loo1", "bon_off_policy_exact"} <= set(demo.methods)
    for method in demo.methods:
        trainer = {**demo.train.trainer, "method": method, "output_dir": str(tmp_path)}
        config = from_mapping(MaxAtKConfig, trainer, where="trainer")
        assert config.k <= config.num_generations
        prompts = config.generation_batch_size // config.num_generations
        assert prompts <= demo.mini.train_problems
    assert demo.eval.sampling.samples >= 128  # the largest k of the table
