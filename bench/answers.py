"""Pairs of expected answers and completions a second, against TRL's `accuracy_reward`.

1,000 pairs as mathematics problems have them, of which 1% are hostile: a comparison that does not
end. Both rewards run in this process, one after the other. TRL's interrupts a comparison by a
signal, ours by a process that is replaced.
"""

import os
import random
import time

from trl.rewards import accuracy_reward

from maxatk.rewards.answers import AnswerReward

COUNT = 1_000
HOSTILE = 10
REASONING = "We add both sides and simplify, which gives $a + b = {n}$. " * 8


def pair(index: int, draw: random.Random) -> tuple[str, str]:
    """Return an expected answer, and the answer of a completion that is equal in half the cases."""
    a, b, c = (draw.randint(2, 60) for _ in range(3))
    kinds = [
        (f"{a * b}", f"{a * b}"),
        (rf"\frac{{{a}}}{{{b}}}", rf"\frac{{{a * c}}}{{{b * c}}}"),
        (rf"{c}\sqrt{{{a}}}", rf"\sqrt{{{a * c * c}}}"),
        (f"({a}, {b})", f"({a},{b})"),
        (f"x^2 + {a + b}x + {a * b}", f"(x+{a})(x+{b})"),
        (rf"\{{{a}, {a + b}\}}", rf"\{{{a + b}, {a}\}}"),
        (f"{a / 8}", rf"\frac{{{a}}}{{8}}"),
        (f"[{a}, {a + b}]", f"[{a},{a + b}]"),
    ]
    gold, answer = kinds[index % len(kinds)]
    return (gold, answer) if draw.random() < 0.5 else (gold, answer.replace(str(a), str(a + 1)))


def pairs() -> list[tuple[str, str]]:
    """Return the pairs, with the hostile ones spread evenly."""
    draw = random.Random(0)
    made = [pair(index, draw) for index in range(COUNT)]
    for index in range(0, COUNT, COUNT // HOSTILE):
        made[index] = (
            r"\sqrt{2}+\sqrt{3}+\sqrt{5}+\sqrt{7}+\sqrt{11}+\sqrt{13}",
            f"(a+b+c+d+e)^{{{90 + index % 7}}}-(a+b+c+d)^{{80}}",
        )
    return made


def main() -> None:
    made = pairs()
    gold = [f"${expected}$" for expected, _ in made]
    texts = [REASONING.format(n=n) + rf"So it is $\boxed{{{a}}}$." for n, (_, a) in enumerate(made)]
    conversations = [[{"role": "assistant", "content": text}] for text in texts]
    workers = len(os.sched_getaffinity(0))
    rates = {}
    rewards = {}
    for name, count in {"one process": 1, f"{workers} processes": workers}.items():
        ours = AnswerReward(workers=count)
        ours(completions=["1"] * count, answer=[str(n + 2) for n in range(count)])  # imports SymPy
        started = time.perf_counter()
        rewards[name] = ours(completions=texts, answer=gold)
        rates[name] = COUNT / (time.perf_counter() - started)
        ours.close()
    accuracy_reward(conversations[1:2], gold[1:2])  # imports SymPy
    started = time.perf_counter()
    rewards["TRL"] = accuracy_reward(conversations, gold)
    rates["TRL"] = COUNT / (time.perf_counter() - started)
    for name, rate in rates.items():
        right = sum(reward or 0.0 for reward in rewards[name])
        print(f"{name:14} {rate:7.1f} pairs a second, {right:.0f} right")
    differing = sum(
        ours != theirs for ours, theirs in zip(rewards["one process"], rewards["TRL"], strict=True)
    )
    print(f"{differing} of {COUNT} pairs differ between ours and TRL's")


if __name__ == "__main__":
    main()
