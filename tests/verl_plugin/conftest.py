import os

import pytest

os.environ.setdefault("RAY_worker_niceness", "0")  # of clusters that a test starts


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """A model of random weights, whose texts vary, and problems in both forms."""
    from maxatk.jsonl import write_jsonl
    from maxatk.mini import Noise, generate_problems
    from maxatk.mini.model import new_model, noisy_corpus, train_tokenizer
    from maxatk.verl.dataset import write_parquet

    folder = tmp_path_factory.mktemp("mini")
    generated = list(generate_problems(16, seed=0, tests=3))
    corpus = noisy_corpus(generated, noise=Noise(), seed=0)
    tokenizer = train_tokenizer([p + c for p, c in corpus], vocabulary=120)
    new_model(tokenizer, seed=0).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    problems = [mini_problem.problem for mini_problem in generated]
    write_jsonl(folder / "problems.jsonl", (problem.to_json() for problem in problems))
    write_parquet(problems, folder / "problems.parquet")
    return folder
