"""Answers in several forms through the real math-verify: `make test-formats` installs it."""

import importlib.util
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import assert_linear_time
from maxatk.errors import DataError, InvalidValueError, MissingDependencyError
from maxatk.records import Problem
from maxatk.rewards import load_reward
from maxatk.rewards.answers import AnswerReward, compute_answer_score
from maxatk.rewards.boxes import last_box
from maxatk.rewards.gold_answers import check_answers
from maxatk.rewards.notation import (
    bare_prose,
    content_of,
    formula,
    gold_formula,
    in_answer_tag,
    prose,
)
from maxatk.rewards.reward import Reward, RewardPart
from maxatk.verifier import Verifier

installed = importlib.util.find_spec("math_verify") is not None
needed = pytest.mark.skipif(not installed, reason="math-verify is not installed: make test-formats")


@pytest.fixture(scope="module")
def answers():
    reward = AnswerReward()
    yield reward
    reward.close()


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as opened:
        yield opened


@needed
@pytest.mark.parametrize(
    ("gold", "completion", "right"),
    [
        ("2", "2", 1.0),
        ("2", "The answer is $2$.", 1.0),
        ("1/2", r"so we get \boxed{\frac{1}{2}}", 1.0),
        (r"\frac{1}{2}", "0.5", 1.0),
        ("0.5", r"\boxed{\frac{3}{6}}", 1.0),
        (r"2\sqrt{3}", r"$\sqrt{12}$", 1.0),
        ("1000", "It costs 1,000 dollars", 1.0),
        ("x^2+2x+1", r"$(x+1)^2$", 1.0),
        ("p - q", r"\boxed{p-q}", 1.0),
        ("(3, 4)", r"\boxed{(3,4)}", 1.0),
        ("(3, 4)", r"\boxed{4}", 0.0),
        ("2k+2", r"\boxed{2}", 0.0),
        ("3,5,7", r"\boxed{7, 5, 3}", 1.0),
        ("[1, 2]", r"\boxed{[1,2]}", 1.0),
        ("10", r"\boxed{10.}", 1.0),
        ("10", r"\boxed{x = 10 .}", 1.0),
        ("10.", r"\boxed{10}", 1.0),
        ("10", r"\boxed{10...}", 0.0),
        ("2", r"\boxed{\neq 2}", 0.0),
        ("2", r"\boxed{\geq 2}", 0.0),
        ("2", r"\boxed{$< 2$}", 0.0),
        ("2", r"\boxed{≠2}", 0.0),
        (r"\geq 2", r"\boxed{\geq 2}", 1.0),
        ("2", r"\boxed{\left(2\right)}", 1.0),
        ("(1, 2)", r"\boxed{（1，2）}", 1.0),
        ("12", "答案是１２。", 1.0),
        ("12", "答案：12", 1.0),
        ("-12", "Ответ:-12", 1.0),
        ("12", "答案是2。", 0.0),
        ("y = 2x + 3", r"\boxed{y=2x+3}", 1.0),
        ("sqrt(2)", r"\boxed{\sqrt{2}}", 1.0),
        ("(C)", r"\boxed{\text{(C)}}", 1.0),
        (r"\$18.90", r"\boxed{18.90}", 1.0),
        ("1e-05", r"\boxed{0.00001}", 1.0),
        ("1e-05", r"\boxed{1}", 0.0),
        ("18 dollars", r"\boxed{18}", 1.0),
        ("20 L", r"\boxed{20}", 1.0),
        ("€18", r"\boxed{18}", 1.0),
        (r"$x^2+2x+1$", r"$(x+1)^2$", 1.0),
        (r"\{1, 2\}", r"\boxed{\{2, 1\}}", 1.0),
        ("4", r"<think>\boxed{3}?</think>It is $4$.", 1.0),
        ("3", r"<think>\boxed{3}?</think>It is $4$.", 0.0),
        ("3", r"<think>\boxed{3}</think>", 1.0),
        ("-3", "3", 0.0),
        ("2", "First 2, then 3", 0.0),
        ("2", "no idea", 0.0),
        ("2", "", 0.0),
        # the last box decides
        ("42", r"\boxed{6} times \boxed{7} gives \boxed{42}", 1.0),
        ("42", r"\boxed{42}, or rather \boxed{41}", 0.0),
        ("42", r"\boxed{42}. No. Final: \boxed{", 0.0),
        ("42", r"\boxed{42}. No. Final: \boxed{4", 0.0),
        ("42", r"so \fbox{42}", 1.0),
        ("42", r"\boxed{41} and so \fbox {42}", 1.0),
        ("42", r"\boxed{\boxed{42}}", 1.0),
        (r"\{1, 2\}", r"\boxed{1} hm \boxed{\{1, 2\}}", 1.0),
        ("42", r"\boxed{} 42", 1.0),  # a box without content is none
        ("5", r"$x=\boxed{3}$ and then $y=\boxed{5}$", 1.0),
        ("3,5", r"\boxed{3} and \boxed{5}", 1.0),
        ("3,5", r"$\boxed{5}$, $\boxed{3}$", 1.0),
        ("3,5,7", r"\boxed{3} and \boxed{5}", 0.0),
        ("3,5", r"\boxed{9}, wait. \boxed{3} or \boxed{5}", 1.0),
        ("12345", r"\boxed{12\,345}", 1.0),
        ("12345", r"It is $12\,345$.", 1.0),
        # thousands with a blank between them
        ("1000", r"\boxed{1 000}", 1.0),
        ("1 000", r"\boxed{1000}", 1.0),
        ("1234567", "\\boxed{1\N{THIN SPACE}234\N{NO-BREAK SPACE}567}", 1.0),
        ("1234567", "It is 1\N{NARROW NO-BREAK SPACE}234\N{THIN SPACE}567.", 1.0),
        ("1000", r"\boxed{1~000}", 1.0),
        ("-12345.67", r"\boxed{x = -12 345.67}", 1.0),
        ("1000", r"\boxed{1 000 \text{ m}}", 1.0),
        ("1000", r"\boxed{\$1 000}", 1.0),
        ("1000", "$1 000$", 1.0),
        ("1000", "<answer>1 000</answer>", 1.0),
        ("0", r"\boxed{1 000}", 0.0),
        ("1", r"\boxed{1 000}", 0.0),
        ("100200", r"\boxed{100, 200}", 0.0),
        ("100, 200", r"\boxed{100 200}", 0.0),
        ("100, 200", r"\boxed{100,200}", 1.0),
        ("100x^2", r"\boxed{x^2 100}", 1.0),
        # equations
        ("2", r"\boxed{3 = 2}", 0.0),
        ("3", r"\boxed{3 = 2}", 0.0),
        ("2", r"\boxed{x = 3 = 2}", 0.0),
        ("8", r"\boxed{2^{3} = 2 \times 3 = 8}", 0.0),
        ("2", "<answer>3 = 2</answer>", 0.0),
        ("2", "$3 = 2$", 0.0),
        ("2", r"\boxed{1 + 1 = 2}", 1.0),
        ("8", r"\boxed{2^{3} = 2 \times 4 = 8}", 1.0),
        ("0.67", r"\boxed{\frac{2}{3} = 0.67}", 1.0),
        (r"\frac{\pi}{2}", r"\boxed{90^\circ = \frac{\pi}{2}}", 1.0),
        ("12", r"\boxed{1100_2 = 12}", 1.0),
        ("120", r"\boxed{5! = 120}", 1.0),
        ("1/2", r"\boxed{50\% = 0.5}", 1.0),
        ("2", r"\boxed{2 = x}", 1.0),
        ("1/2", r"\boxed{\frac{1}{2} = x}", 1.0),
        ("2", r"\boxed{3 = x}", 0.0),
        ("y = 2x + 3", r"\boxed{2x + 3 = y}", 1.0),
        (r"6.02 \times 10^{23}", r"\boxed{6.02e23}", 1.0),
        ("May 5", r"\boxed{\text{May 5}}", 1.0),
        ("2,3", r"\boxed{23}", 0.0),
        ("12", r"\boxed{1 2}", 0.0),
        # in a tag
        ("42", "<answer>42</answer>", 1.0),
        ("42", "<answer>\n42\n</answer>", 1.0),
        ("42", "<think>41</think><answer>42</answer>", 1.0),
        ("42", "<answer>41</answer> No. <Answer>42</Answer> of 3", 1.0),
        ("42", "<answer>42</answer> No. <answer>41</answer>", 0.0),
        ("42", "<answer>42</answer><answer> </answer>", 1.0),  # one without content is none
        ("42", "<answer>It is $42$.", 1.0),  # cut off behind it
        ("42", r"<answer>\boxed{42}</answer> of 3", 1.0),
        ("42", r"\boxed{42} <answer>as above, 41</answer>", 1.0),  # a box goes first
        ("3", "<answer>3 apples</answer>", 1.0),
        ("x^2+1", "<answer>x^2+1</answer>", 1.0),
        ("C", "<answer>(C)</answer>", 1.0),
        ("(3, 4)", "<answer>(3, 4)</answer>", 1.0),
        ("4", "<answer>(3, 4)</answer>", 0.0),
        # without a blank before the answer
        ("42", "3 + 39 gives\nAnswer:42", 1.0),
        ("-42", "Answer:-42", 1.0),
        ("42", "Answer:-42", 0.0),
        ("42", "**Answer:**42", 1.0),
        ("42", "Answer:**42**", 1.0),
        ("42", "3 + 39 = <<3+39=42>>42\n####42", 1.0),
        ("42", "x≈42", 1.0),
        ("42", "(42)", 1.0),
        ("42", "`42`", 1.0),
        ("42", "It is 42 and not `41`.", 1.0),
        # a number with its unit
        *[("10", rf"\boxed{{10 {unit}}}", 1.0) for unit in ("people", "eggs", "J", "years old")],
        *[("10", rf"\boxed{{10 {unit}}}", 1.0) for unit in ("m^2", "cm^{3}", "km/h", "m²", "€")],
        *[("10", rf"\boxed{{10{unit}}}", 1.0) for unit in ("°C", r"^\circ C", r"~\mathrm{m}")],
        ("1000", r"\boxed{1,000 dollars}", 1.0),
        ("1/2", r"\boxed{1/2 cup}", 1.0),
        ("18", r"\boxed{x = 18 dollars}", 1.0),
        ("42 m²", r"\boxed{42}", 1.0),
        ("42°C", r"\boxed{42}", 1.0),
        ("42", "<answer>42 m²</answer>", 1.0),
        ("42", "The answer is $42 m^2$.", 1.0),
        ("42 million", r"\boxed{42}", 1.0),
        ("42000000", r"\boxed{42 million}", 1.0),
        ("42", r"\boxed{42 million}", 0.0),
        ("42", r"\boxed{42 \text{ million}}", 0.0),
        ("42", r"\boxed{43 m^2}", 0.0),
        ("42", r"\boxed{42 apples or 41 apples}", 0.0),
        ("42", r"\boxed{42 apples, 41 pears}", 0.0),
        ("2", r"\boxed{2x}", 0.0),
        ("2", r"\boxed{2 x}", 0.0),
        ("2", r"\boxed{2 pi}", 0.0),
        ("2x", r"\boxed{2}", 0.0),
        # what math-verify takes for equal
        ("1.6e-19", r"\boxed{1.6\times 10^{-19}}", 1.0),
        ("1.6e-19", r"\boxed{9.1e-31}", 0.0),
        (r"6.63\times 10^{-34}", r"\boxed{1.2\times 10^{-30}}", 0.0),
        ("0.0000001", r"\boxed{0.0000002}", 0.0),
        ("0.0000001", r"\boxed{10^{-7}}", 1.0),
        (r"\frac{1}{649740}", r"\boxed{0.0000015}", 0.0),
        (r"\frac{1}{649740}", r"\boxed{0.00000153908}", 1.0),
        ("2516_8", r"\boxed{2516_{8}}", 1.0),
        ("2516_8", r"\boxed{2516_9}", 0.0),
        ("2516", r"\boxed{2516_8}", 0.0),
        ("110_2", r"\boxed{110}", 0.0),
        ("x=1, y=2", r"\boxed{1,2}", 1.0),
        ("x=1, y=2", r"\boxed{y=2, x=1}", 1.0),
        ("x=1, y=2", r"\boxed{2,1}", 0.0),
        ("42", r"\boxed{x^2=42}", 0.0),
        ("42", r"\boxed{2x = 42}", 0.0),
        ("42", r"\boxed{f(2) = 42}", 1.0),
        ("42", r"\boxed{x_1 = 42}", 1.0),
        ("12", r"\boxed{AB = 12}", 1.0),
        ("12", r"\boxed{a+b=7+5=12}", 1.0),
        ("[1,2]", r"\boxed{1 \le x \le 2}", 1.0),
        # several numbers in prose
        ("41", "The answer is 41 or 43.", 0.0),
        ("43", "The answer is 41 or 43.", 0.0),
        ("41", "The final answer is 41 or 43.", 0.0),
        ("43", "41 or 43", 0.0),
        ("41", "Answer: 41, 43", 0.0),
        ("41, 43", "Answer: 41, 43", 1.0),
        ("1, 2", "The answers are 1 and 2.", 1.0),
        ("1, 2", "<answer>1 and 2</answer>", 1.0),
        ("1/2", "The answer is 1/2 or 0.5.", 1.0),
        ("1234", "The answer is 1,234.", 1.0),
        ("42", "Is it 41 or 42? It is 42.", 1.0),
        # what the answer is not, in prose and in tags
        ("42", "The answer is not 42.", 0.0),
        ("42", "not 42", 0.0),
        ("43", "The answer is not 42 but 43.", 1.0),
        ("42", "So the answer is 42, not 41.", 1.0),
        ("42", "So there are 42 apples, not 41 apples.", 1.0),
        ("41", "So there are 42 apples, not 41 apples.", 0.0),
        ("-3", "It is -3 (not 3).", 1.0),
        ("42", "It is $42$, not $41$.", 1.0),
        ("42", "The total is $42, not $41.", 1.0),
        ("41", "It is 42, not $41 + 1$.", 0.0),
        ("2", "Is x equal to 3 or not? It is not 3 - 2 but 3 - 1 = 2.", 1.0),
        ("42", "Whether it is odd or not 42 is even.", 1.0),
        ("42", "<answer>not 42</answer>", 0.0),
        ("42", "<answer>42, not 41</answer>", 1.0),
        ("42", "<answer>The answer is 42, not 41.</answer>", 1.0),
        ("42", "In 2024, 42 people", 1.0),
        ("42", "The answer is 42, as in 2024.", 1.0),
        # Markdown and signs
        ("42", "<answer>**42**</answer>", 1.0),
        ("42", "<answer>`42`</answer>", 1.0),
        ("42", "*42*", 1.0),
        ("42", "The answer is *42*.", 1.0),
        ("43", "The answer is *42*.", 0.0),
        ("6", "<answer>2*3</answer>", 1.0),
        ("42", "The answer is +42.", 1.0),
        ("-42", "The answer is +42.", 0.0),
        ("-0.5", "The answer is -.5", 1.0),
        ("0.5", "The answer is -.5", 0.0),
        ("0.5", "It costs $.50.", 1.0),
        ("42", "42, not .5", 1.0),
        ("3", "$3$. See no.5", 1.0),
        ("5", "2 +3", 1.0),
        ("42", r"The answer is \$42.", 1.0),
        ("42", r"\boxed{\textcolor{red}{42}}", 1.0),
        ("42", r"\boxed{\underline{42}}", 1.0),
        ("42", r"\boxed{42,}", 1.0),
        ("42", r"\boxed{\text{Answer: }42}", 1.0),
        ("123000", "1.23 × 10^5", 1.0),
        ("123000", "The answer is 1.23e5.", 1.0),
        ("1.23", "The answer is 1.23e5.", 0.0),
        (r"\emptyset", r"\boxed{\varnothing}", 1.0),
        # in Unicode
        ("90", r"\boxed{90°}", 1.0),
        (r"90^\circ", r"\boxed{90°}", 1.0),
        ("90°", r"\boxed{90^{\circ}}", 1.0),
        (r"\sqrt{3}", r"\boxed{√3}", 1.0),
        (r"2\sqrt{x+1}", r"$2√(x+1)$", 1.0),
        (r"√3", r"\boxed{\sqrt{3}}", 1.0),
        (r"\sqrt{3}", r"\boxed{√2}", 0.0),
        (r"\sqrt[3]{2}", r"\boxed{∛2}", 1.0),
        ("x^2", r"\boxed{x²}", 1.0),
        ("x^{-12}", r"\boxed{x⁻¹²}", 1.0),
        ("2", "The area is x².", 0.0),
        ("3", r"The area is √3.", 0.0),
        ("1/2", r"\boxed{½}", 1.0),
        ("3/2", r"\boxed{1½}", 1.0),
        ("-3/2", r"\boxed{−1½}", 1.0),
        ("1/2", "The answer is ½.", 1.0),
        ("1/2", "The answer is 1½.", 0.0),
        ("5", "The answer is 5¼.", 0.0),
        ("21/4", "The answer is 5 ¼.", 1.0),
        ("3", "3 of 6, so the answer is ½.", 0.0),
        ("1/2", "3 of 6, so the answer is ½.", 1.0),
        ("1/2", "答案是½。", 1.0),
        ("1/2", "答案是1/2。", 1.0),
        ("42", "42 is ½ of 84, and ½ of 84 is 42.", 1.0),
        ("11/2", r"\boxed{5 1/2}", 1.0),
        ("5 1/2", r"\boxed{5.5}", 1.0),
        ("5 1/2", r"\boxed{5}", 0.0),
        ("-5.5", r"\boxed{-5 1/2}", 1.0),
        (r"5\frac{1}{2}", "<answer>5 1/2</answer>", 1.0),
        ("5.5", "Thus the answer is 5 1/2 km.", 1.0),
        ("5.5", "#### 5 1/2", 1.0),
        ("1/2", "The answer is 5 1/2.", 0.0),
        ("(1, 5/2)", r"\boxed{(1, 2 1/2)}", 1.0),
        ("5/2", "$x^2 1/2$", 0.0),
        ("-3", "Final answer: −3", 1.0),
        ("3", "Final answer: −3", 0.0),
        (r"[0, \infty)", r"\boxed{[0, ∞)}", 1.0),
        ("6", r"\boxed{2·3}", 1.0),
        # a function of a name is not the name, unless it is what questions ask for
        ("42", r"$\log x = 42$", 0.0),
        ("42", r"\boxed{\log x = 42}", 0.0),
        ("42", r"\boxed{\log_2 x = 42}", 0.0),
        ("42", r"\boxed{\log_{10}(x) = 42}", 0.0),
        ("42", r"\boxed{\ln(x) = 42}", 0.0),
        ("42", r"\boxed{e^x = 42}", 0.0),
        ("42", r"\boxed{x! = 42}", 0.0),
        ("42", r"\boxed{2\theta = 42}", 0.0),
        ("42", r"\boxed{\theta = 42}", 1.0),
        ("42", r"\boxed{e = 42}", 1.0),
        ("42", r"\boxed{f(3) = 42}", 1.0),
        ("24", r"\boxed{4! = 24}", 1.0),
        ("3", r"\boxed{x = \log 1000}", 1.0),
        ("5", r"\boxed{|z| = 5}", 1.0),
        ("3/5", r"\boxed{\sin A = \frac{3}{5}}", 1.0),
        # two values with a unit
        ("42", "It takes 5 days or 6 days. So the answer is 42 days.", 1.0),
        ("42", "either 42 m or 42.0 m", 1.0),
        ("42", r"\boxed{42 \text{ cm or } 42 \text{ cm}}", 1.0),
        ("41, 42", "41 cm or 42 cm", 1.0),
        ("1/2", r"\boxed{1/2} or \boxed{0.5}", 1.0),
        # a box without braces or content, a choice before its number, the usual base
        ("7", r"\boxed{}7", 1.0),
        ("7", r"\boxed{} 7", 1.0),
        ("7", r"\boxed7", 1.0),
        ("42", r"\boxed{\textbf{(B)}\ 42}", 1.0),
        ("42", r"\boxed{\text{(B) } 42}", 1.0),
        ("B", r"\boxed{\text{(B)}}", 1.0),
        ("42", r"\boxed{42_{10}}", 1.0),
        ("110_2", r"\boxed{110_{10}}", 0.0),
    ],
)
def test_equal_answers_in_other_forms_are_right(answers, gold, completion, right):
    assert answers(completions=[completion], answer=[gold]) == [right]


@needed
def test_messages_and_repeated_completions(answers):
    messages = [{"role": "assistant", "content": "4"}]
    assert answers(completions=[messages, "4", "4", "5"], answer=["4"] * 4) == [1.0, 1.0, 1.0, 0.0]


@needed
def test_an_answer_that_is_not_compared_in_time_is_wrong_and_the_next_one_works():
    reward = AnswerReward(timeout_s=0.5)
    assert reward(completions=["1"], answer=["1"]) == [1.0]  # SymPy is imported
    whole = Reward([RewardPart("answer", "answer", function=reward)])
    started = time.monotonic()
    rewards = whole(["", ""], ["$9^{9^{9^{9}}} + 1$", "7"], answer=["$8^{8^{8^{8}}}$", "7"])
    assert rewards == [0.0, 1.0]
    assert time.monotonic() - started < 60
    assert not whole.failures
    reward.close()


HEDGES = [
    r"\boxed{41, 42}", r"\boxed{\{41, 42\}}", r"\boxed{42 \text{ or } 41}", r"\boxed{42 \pm 1}",
    r"\boxed{41 < x < 43}", r"\boxed{[0, 100]}", r"\boxed{42 = 41}", r"\boxed{x}",
    r"\boxed{\infty}", r"\boxed{0/0}", r"\boxed{42} or \boxed{41}", r"\boxed{42}\boxed{41}",
    r"\boxed{(42, 41)}",
    r"\boxed{n \in \mathbb{N}}", "42 or 41", "<think>42", r"<think>\boxed{42}", r"\boxed{42", "4 2",
    r"\boxed{42}\boxed{\frac{1}{0}}", r"\boxed{-42}", "41 cm or 43 cm", "41 cm or 42 cm",
    "Either 41 dollars or 42 dollars.", "$41$ cm or $42$ cm", "It is 41 m or 43 m or 42 m.",
    r"\boxed{42 \text{ cm or } 43 \text{ cm}}", r"\boxed{41\text{ cm or }42\text{ cm}}",
    r"\boxed{41} or \boxed{42}",
]  # fmt: skip


@needed
@pytest.mark.parametrize("completion", HEDGES)
def test_an_answer_that_leaves_it_open_is_wrong(answers, completion):
    assert answers(completions=[completion], answer=["42"]) == [0.0]


@needed
@pytest.mark.parametrize("hedge", [hedge for hedge in HEDGES if hedge.count("boxed") == 1])
def test_a_tag_that_leaves_it_open_is_wrong(answers, hedge):
    content = hedge.replace(r"\boxed{", "", 1).removesuffix("}")
    if "<think>" not in hedge and content != "42":
        assert answers(completions=[f"<answer>{content}</answer>"], answer=["42"]) == [0.0]


VALUES = st.builds(Fraction, st.integers(-60, 60), st.sampled_from([1, 2, 3, 4, 5, 8]))
VULGAR = {(1, 2): "½", (1, 3): "⅓", (2, 3): "⅔", (1, 4): "¼", (3, 4): "¾", (1, 5): "⅕", (3, 8): "⅜"}
FORMS = (
    r"\boxed{@}", "<answer>@</answer>", "Answer:@", "####@", "$@$", "The answer is @.", "`@`",
    "x≈@", r"\boxed{≈@}",
)  # fmt: skip


def written(value):
    """Return a value as models write it, with signs of Unicode."""
    sign = "−" if value < 0 else ""
    whole, rest = divmod(abs(value), 1)
    fraction = VULGAR.get((rest.numerator, rest.denominator))
    if rest and fraction:
        return f"{sign}{whole or ''}{fraction}"
    return f"{sign}{abs(value)}"


@needed
@settings(max_examples=60)
@given(gold=VALUES, value=VALUES, form=st.sampled_from(FORMS))
def test_another_value_is_wrong_in_every_notation(answers, gold, value, form):
    completion = form.replace("@", written(value))
    if value != gold:
        assert answers(completions=[completion], answer=[str(gold)]) == [0.0]
        assert answers(completions=[completion], answer=[written(gold)]) == [0.0]
    if form in FORMS[:2]:
        assert answers(completions=[form.replace("@", written(gold))], answer=[str(gold)]) == [1.0]


@needed
@pytest.mark.parametrize(
    "text",
    [
        "<answer>",
        "<answer> </answer>",
        "√(",
        "½",
        "$",
        "\\(",
        ":**",
        "##",
        "1 or ",
        "1 a or ",
        "$1$ a or ",
        "\\text{",
        "\\boxed{ ",
        "1, ",
        "*1",
        "1e",
        "not 1 ",
    ],
)
def test_no_text_makes_reading_an_answer_slow(text):
    for read in (in_answer_tag, prose, formula, bare_prose, content_of, gold_formula):
        assert_linear_time(read, lambda size: text * size, 100_000)


@needed
def test_a_box_may_be_required():
    reward = AnswerReward(boxed="required", workers=1)
    texts = ["It is 42.", r"\boxed{} 42", r"so \fbox{42}", r"<think>\boxed{42}</think> 42"]
    assert reward(completions=texts, answer=["42"] * 4) == [0.0, 0.0, 1.0, 0.0]
    reward.close()
    with pytest.raises(InvalidValueError, match="boxed: unknown value 'always'"):
        AnswerReward(boxed="always")


@needed
def test_a_thought_that_never_ends_has_no_answer(answers):
    text = r"<think>is it \boxed{42}? let me"
    prompts = ["What?\n<think>\n", "What?"]
    assert answers(completions=[text], answer=["42"]) == [0.0]
    assert answers(prompts, ["It is 42."] * 2, answer=["42"] * 2) == [0.0, 1.0]
    assert answers(completions=[r"x</think> draft </think> \boxed{42}"], answer=["42"]) == [1.0]
    reading = AnswerReward(unfinished_thought="read", workers=1)
    assert reading(completions=[text], answer=["42"]) == [1.0]
    reading.close()
    score = compute_answer_score("a", text, "42")
    assert score == {"score": 0.0, "unscored": 0.0}


@needed
def test_an_unfinished_thought_has_an_outcome_of_its_own(verifier):
    reward = load_reward({"answer": {"boxed": "required"}}, verifier=verifier)
    completions = ["<think>42", r"\boxed{42}", "42"]
    rewarded = reward.rewarded(["", "", ""], completions, {"answer": ["42"] * 3})
    assert [row.total for row in rewarded] == [0.0, 1.0, 0.0]
    assert [str(row.outcome) for row in rewarded] == ["unfinished_thought", "scored", "scored"]


SLOW = "$9^{9^{9^{9}}} + 1$"
HUGE = "$8^{8^{8^{8}}}$"


@pytest.mark.long
@needed
def test_the_number_of_processes_changes_no_result():
    gold = [str(n) for n in range(40)]
    texts = [rf"\boxed{{{n if n % 3 else n + 1}}}" for n in range(40)]
    texts[5] = SLOW
    gold[5] = "7^7^7^7+2"
    rewards = []
    for workers in (1, 3):
        reward = AnswerReward(workers=workers, timeout_s=1.0)
        reward(completions=["1"] * 3, answer=["1", "2", "3"])  # SymPy is imported
        rewards.append(reward(completions=texts, answer=gold))
        reward.close()
    assert rewards[0] == rewards[1]
    assert rewards[0] == [float(n % 3 != 0 and n != 5) for n in range(40)]


@needed
def test_a_time_out_does_not_make_others_wait():
    reward = AnswerReward(workers=2, timeout_s=4.0)
    reward(completions=["1", "2"], answer=["2", "1"])
    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(reward, completions=[SLOW], answer=[HUGE])
        time.sleep(0.5)
        assert reward(completions=[r"\boxed{1}"] * 9, answer=["2"] * 9) == [0.0] * 9
        assert not slow.done()
        assert slow.result() == [0.0]
    reward.close()


@needed
def test_a_completion_that_makes_math_verify_fail_is_wrong_and_not_left_out():
    reward = AnswerReward(workers=1, timeout_s=1.0)
    deep = r"\boxed{" + "(" * 20_000 + "1" + ")" * 20_000 + "}"
    fractions = r"\boxed{" + r"\frac{1}{" * 3_000 + "1" + "}" * 3_001
    assert reward(completions=[deep, fractions, "1"], answer=["1"] * 3)[:2] == [0.0, 0.0]
    assert reward(completions=["1"], answer=["1"]) == [1.0]
    reward.close()


@needed
def test_an_expected_answer_that_is_no_mathematics_gives_no_reward():
    whole = Reward(
        [RewardPart("answer", "answer", on_error="drop", function=AnswerReward(workers=1))]
    )
    assert whole(["", ""], ["Paris.", "3"], answer=["Paris", "3"]) == [None, 1.0]
    assert compute_answer_score("a", "3", "Paris")["unscored"] == 1.0


@needed
@pytest.mark.parametrize("unit", [r"\boxed{", r"\boxed{}", r"\boxed{1},", "{" * 8])
def test_reading_boxes_takes_linear_time(unit):
    assert_linear_time(last_box, lambda size: unit * size, 50_000)


@needed
@pytest.mark.parametrize("blank", [" ", "\n", "$ ", ", "])
def test_what_stands_between_two_boxes_is_read_in_linear_time(blank):
    assert_linear_time(last_box, lambda size: r"\boxed{1}" + blank * size + r"\boxed{2}", 16_000)


@pytest.mark.parametrize(
    ("between", "is_joint"),
    [
        (",", True), (";", True), ("$ , $", True), ("$,\n and\n$", True), (" or ", True),
        (", or ", True), ("$,$", True), ("", False), ("  ", False), ("$$", False), (", ,", False),
        ("; and", False), ("$$,$", False), (" nor ", False),
    ],
)  # fmt: skip
def test_boxes_are_one_answer_where_a_joint_alone_is_between_them(between, is_joint):
    boxes = last_box(rf"\boxed{{1}}{between}\boxed{{2}}")
    assert boxes.joined == (("1", "2") if is_joint else ("2",))


@needed
def test_every_expected_answer_is_looked_for_in_the_forms_that_models_write(answers):
    good = ["42", r"\frac{1}{2}", "(3, 4)", "1e-05", r"$x^2$", "18 dollars"]
    problems = [Problem(f"g{i}", "", answer=gold) for i, gold in enumerate(good)]
    problems += [Problem("none", ""), Problem("words", "", answer="Paris")]
    counts, failures = check_answers(problems, answers)
    assert counts == {"answers": 7, "recognised": 7 - len(failures)}
    assert [row["problem_id"] for row in failures if row["reason"]] == ["words"]
    assert not [row for row in failures if row["problem_id"] in ("g0", "g1")]


@needed
def test_problems_need_an_answer_that_is_mathematics(answers):
    with pytest.raises(InvalidValueError, match="'p': has no `answer`"):
        answers.check([Problem("p", "x")])
    with pytest.raises(DataError, match="'p': answer: 'Paris' is not mathematics"):
        answers.check([Problem("q", "x", answer="3"), Problem("p", "x", answer="Paris")])


@pytest.mark.skipif(installed, reason="math-verify is installed")
def test_without_math_verify_the_extra_is_named():
    with pytest.raises(MissingDependencyError, match=r"pip install 'maxatk\[math\]'"):
        AnswerReward()


@pytest.mark.parametrize("gold", [42, 42.0, "42", np.int64(42), np.float32(42)])
def test_an_expected_answer_may_be_a_number(answers, gold):
    assert answers(completions=["\\boxed{42}", "\\boxed{41}"], answer=[gold] * 2) == [1.0, 0.0]
    assert compute_answer_score("d", "\\boxed{42}", gold) == {"score": 1.0, "unscored": 0.0}


@pytest.mark.parametrize("gold", [None, [42], {"answer": 42}, True, b"42", 1j])
def test_an_expected_answer_of_another_type_is_refused(answers, gold):
    with pytest.raises(InvalidValueError, match=r"^answer: must be text or a number"):
        answers(completions=["\\boxed{42}"], answer=[gold])
    with pytest.raises(InvalidValueError, match=r"^ground_truth: must be text or a number"):
        compute_answer_score("d", "\\boxed{42}", gold)


def test_arguments_of_another_type_are_named(answers):
    with pytest.raises(InvalidValueError, match=r"^solution_str: must be a string, got None"):
        compute_answer_score("d", None, "42")
    with pytest.raises(InvalidValueError, match=r"^completion: must be text or a list of"):
        answers(completions=[5], answer=["42"])
    with pytest.raises(InvalidValueError, match=r"^workers: must be an integer of 1 or more"):
        AnswerReward(workers=1.5)


@needed
@pytest.mark.parametrize("values", [5, "x", {"x": 1}, iter(["x"])])
def test_the_columns_of_an_answer_reward_are_lists(answers, values):
    for columns in (
        {"completions": None, "answer": ["1"]},
        {"completions": values, "answer": ["1"]},
        {"completions": ["1"], "answer": values},
        {"completions": ["1"], "answer": ["1"], "prompts": values},
    ):
        with pytest.raises(InvalidValueError, match="must be a list with one value a completion"):
            answers(**columns)
    with pytest.raises(InvalidValueError, match=r"^answer: the data need a column `answer`"):
        answers(completions=["1"])
    with pytest.raises(InvalidValueError, match=r"^answer: 2 rows for 1 completion$"):
        answers(completions=["1"], answer=["1", "2"])
