"""A table of completions as models write them, with the program that a reader would take."""

ADD = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
USE = "print(add(1, 2))\n"
LOOP = "n = int(input())\nfor i in range(n):\n    print(i * i)\n"
SOLUTION = "class Solution:\n    def run(self, n):\n        return n + 1\n"
SIEVE = "import math\n\n\ndef primes(n):\n    return [i for i in range(2, n) if is_prime(i)]\n"
PRIME = "def is_prime(n):\n    return all(n % i for i in range(2, n))\n"
QUOTED = (
    'def add(a, b):\n    """Use:\n    ```{}\n    add(1, 2)\n    ```\n    """\n    return a + b\n'
)
BODY = "    total = a + b\n    return total\n"
IMPORT = "import math\n"
ROOT = "def root(x):\n    return math.sqrt(x)\n"
TYPES = "from typing import List\n"
TYPED = "class Solution:\n    def f(self, x: List[int]): return x\n"
LIMITED = "def f(x):\n    return min(x, LIMIT)\n"
MAIN = "a, b = map(int, input().split())\nprint(add(a, b))\n"
FUTURE = "from __future__ import annotations\n"
DOC = '"""Doc."""\n'
READ = "import os\nprint(os.read(0, 9))\n"
MAINS = "def main():\n    print(input())\n"
GUARD = "if __name__ == '__main__':\n    main()\n"
KADANE = """import sys

def max_sum(a):
    # Kadane
    best = cur = a[0]
    for x in a[1:]:
        cur = max(x, cur + x)
        best = max(best, cur)
    return best
"""
KADANE_MAIN = """
def main():
    n = int(input())
    if n == 0:
        print(0)
        return
    a = list(map(int, input().split()))
    print(max_sum(a))

if __name__ == "__main__":
    main()
"""
WHOLE = KADANE + KADANE_MAIN
SHORT_SUM = """n = int(input())
if n == 0:
    print(0)
    exit()
a = list(map(int, input().split()))
total = sum(a)
for x in a:
    total -= x % 2
print(total)
"""
BOXED = """class Box:
    def __init__(self):
        self.n = 0

    def add(self, k):
        self.n += k
        return self.n
"""
SIEVE_USE = "print(primes(9))\n"
STAR = "from math import *\nprint(gcd(int(input()), 6))\n"
PY = "```python\n"
END = "```\n"
ALSO_WRITES = "import os\nn = int(input())\nos.write(1, str(n).encode())\n"
QUOTES = "'''"
TEXT = f"x = len(\n{QUOTES}python\n{QUOTES}\n)\n"
DOCUMENTED = f"{QUOTES}\nDoc.\n{QUOTES}\n{ADD}"


def indented(text, by="    "):
    return "".join(by + line if line.strip() else line for line in text.splitlines(keepends=True))


def blocks(program, later):
    """Return a completion with a program and a later block."""
    return f"{PY}{program}{END}So:\n{PY}{later}{END}"


def first(count, program):
    """Return the first lines of a program."""
    return "".join(program.splitlines(keepends=True)[:count])


# Each row: the completion, the name that the problem's tests call (or None), the program.
COMPLETIONS = [
    # no fence
    (LOOP, None, LOOP),
    ("print(1)", None, "print(1)"),
    (ADD, "add", ADD),
    ("", None, ""),
    ("I do not know.", None, "I do not know."),
    ("I do not know.", "add", "I do not know."),
    # a program without a fence, beside sentences
    (f"Here is the code:\n\n{LOOP}", None, LOOP),
    (f"{LOOP}This prints squares.", None, LOOP),
    (f"{LOOP}\nThis reads a number\nand prints squares.\n\nDone", None, LOOP),
    (f"Sure! Here it is:\n\n{ADD}\nIt adds two numbers.\n", "add", ADD),
    (f"Here is the code:\n\n{ADD}", "sub", f"Here is the code:\n\n{ADD}"),
    (f"{LOOP}print(1\n", None, f"{LOOP}print(1\n"),
    (f"{LOOP}x = = 1\nThis is wrong.", None, f"{LOOP}x = = 1\nThis is wrong."),
    ("Here is the answer:\n\n42", None, "Here is the answer:\n\n42"),
    # words in comments and strings read nothing
    (f'{PY}{LOOP}{END}Next:\n{PY}# input() reads\nprint("5")\n{END}', None, LOOP),
    (f'{PY}{LOOP}{END}Next:\n{PY}print("call input() here")\n{END}', None, LOOP),
    # and print nothing
    (blocks(LOOP, "n = int(input())\nn * 3  # print it\n"), None, LOOP),
    (blocks(LOOP, 'n = int(input())\nnote = "print or write to stdout"\n'), None, LOOP),
    (blocks(LOOP, "n = int(input())\ndef rewrite(n):\n    return n\nrewrite(n)\n"), None, LOOP),
    (blocks(LOOP, ALSO_WRITES), None, ALSO_WRITES),
    (f"{PY}{LOOP}# sys.stdin = io.StringIO('3')\n{END}Next:\n{PY}print(9)\n{END}", None,
     f"{LOOP}# sys.stdin = io.StringIO('3')\n"),
    ("Use `x` and ```y``` here", None, "Use `x` and ```y``` here"),
    (BODY, "add", BODY),  # the body of a function that the prompt begins
    # tags
    (f"<answer>\n{LOOP}</answer>", None, LOOP),
    (f"So:\n<solution>\n{ADD}</solution>\nDone.", "add", ADD),
    (f"<code>\n{LOOP}</code>", None, LOOP),
    ("<code>\nsome words\n</code>", None, "<code>\nsome words\n</code>"),
    # a stand-in of a test
    (f"{PY}{ADD}{END}Test:\n{PY}add = lambda a, b: 3\nassert add(1, 2) == 3\n{END}", "add", ADD),
    (f"{PY}add = 0\n{END}Then:\n{PY}add = lambda a, b: 3\n{END}", "add", "add = lambda a, b: 3\n"),
    # one block
    (f"Sure:\n{PY}{LOOP}{END}Done.", None, LOOP),
    (f"a\n{PY}print(1)\n{END}b", None, "print(1)\n"),
    (f"```\n{LOOP}{END}", None, LOOP),
    (f"```Python3\n{LOOP}{END}", None, LOOP),
    (f"```py\n{ADD}{END}", "add", ADD),
    (f"```python3\n{ADD}{END}", "add", ADD),
    (f"``` python\n{ADD}{END}", "add", ADD),
    (f"```python title='x.py'\n{ADD}{END}", "add", ADD),
    (f"```{{.python}}\n{ADD}{END}", "add", ADD),
    (f"~~~python\n{ADD}~~~\n", "add", ADD),
    ("~~~python\nprint('```')\n~~~", None, "print('```')\n"),
    ("````python\nx = '''\n```\n'''\n````", None, "x = '''\n```\n'''\n"),
    ("```python\nprint('a ``` b')\n```", None, "print('a ``` b')\n"),
    ('```python\ns = """\n~~~\n"""\n```', None, 's = """\n~~~\n"""\n'),
    ("```python\r\nprint(1)\r\n```\r\n", None, "print(1)\r\n"),
    ("```rust\nint x;\n```", None, "int x;\n"),
    ("```python\n```\n", None, ""),
    ("```", None, ""),
    (f"{PY}{SOLUTION}{END}", "Solution", SOLUTION),
    (f"{PY}{SOLUTION}{END}", "Solution().run", SOLUTION),
    # a fence that is indented, or whose code is
    ("  ```python\n  print(1)\n  ```", None, "print(1)\n"),
    ("\t```python\n\tprint(1)\n\t```", None, "print(1)\n"),
    (f"1. So:\n   ```python\n{indented(LOOP, '   ')}   ```\n2. Done", None, LOOP),
    ("1. So:\n   ```python\n   if 1:\n       x\n\n   y\n   ```", None, "if 1:\n    x\n\ny\n"),
    (f"- Answer:\n\n    ```python\n{LOOP}    ```\n", None, LOOP),  # the fence alone is
    (f"{PY}{indented(LOOP)}{END}", None, LOOP),  # the code alone is
    (f"{PY}{indented(ADD)}{END}", "add", ADD),
    (f"{PY}\n{indented(ADD, '  ')}\n{END}", "add", f"\n{ADD}\n"),
    (f"```\n{indented(SOLUTION, chr(9))}{END}", "Solution", SOLUTION),
    (f"{PY}{BODY}{END}", "add", BODY),  # the body of a function: prompt and answer are joined
    ("10. ```python\n    x = 1\n    print(x)\n    ```\n", None, "x = 1\nprint(x)\n"),
    # a fence in a docstring
    (f"{PY}{QUOTED.format('')}{END}", "add", QUOTED.format("")),
    (f"{PY}{QUOTED.format('python')}{END}Done.", "add", QUOTED.format("python")),
    (f"- So:\n\n  {PY}{indented(QUOTED, '  ')}  {END}", None, QUOTED),
    # a fence on a line with other text
    (f"Answer: {PY}{LOOP}{END}", None, LOOP),
    (f"Answer: {PY}{ADD}{END}", "add", ADD),
    (f"**Solution** ```\n{ADD}{END}That is all.", "add", ADD),
    (f"\u200b{PY}{ADD}{END}", "add", ADD),
    (f"\ufeff{PY}{ADD}\u200b{END}", None, ADD),
    (f"{PY}{ADD.rstrip()}```", "add", ADD),
    (f"{PY}{ADD.rstrip()}```\nIt adds.\n", "add", ADD),
    (f"{PY}{ADD.rstrip()} ```\nFor example:\n{PY}{USE}{END}", "add", ADD),
    (f"```\n{LOOP.rstrip()}```\n", None, LOOP),
    (f"Answer: {PY}{LOOP.rstrip()}```\nThis prints squares.", None, LOOP),
    (f"{PY}{LOOP}```</s>", None, LOOP),
    (f"{PY}x = '''a''' +\n{END.strip()}<|im_end|>", None, "x = '''a''' +\n"),
    ('```python\ns = """\nA fence: ```\n"""\n```\n', None, 's = """\nA fence: ```\n"""\n'),
    # a fence that ends a block with words behind it, or as it opens the next one
    (f"{PY}{LOOP}``` This prints squares.\n", None, LOOP),
    (f"{PY}{LOOP}``` This works.\nOr:\n{PY}{MAIN}{END}", None, MAIN),
    (f"{PY}{ADD}``` It adds.\nFor example:\n{PY}{USE}{END}", "add", ADD),
    (f"{PY}{ADD}```Done.\nFor example:\n{PY}{USE}{END}", "add", ADD),
    (f"{PY}{ADD}``` 它把两个数相加\n{PY}{USE}{END}", "add", ADD),
    (f"{PY}def add(a, b:\n``` Oops, a bracket.\n{PY}{ADD}{END}", "add", ADD),
    (f"```\n{LOOP}``` This works.\nOr:\n```\n{MAIN}{END}", None, MAIN),
    (f"{PY}{LOOP}{PY}{MAIN}{END}", None, MAIN),
    (f"{PY}{PY}{LOOP}{END}", None, LOOP),
    (f"```text\n1 2\n{PY}{LOOP}{END}", None, LOOP),
    (f"```\n1 2\n{PY}{LOOP}{END}", None, LOOP),
    (f"```cpp\nint x;\n``` In Python:\n{PY}{ADD}{END}", "add", ADD),
    (f"{ADD}``` This adds two numbers.\nUse:\n{PY}{USE}{END}", "add", ADD),
    (f"{PY}{QUOTED.format(' Some words.')}{END}Done.", "add", QUOTED.format(" Some words.")),
    # the prompt has opened the block
    (f"{ADD}{END}", "add", ADD),
    (f"{ADD}{END}This adds two numbers.", "add", ADD),
    (f"{LOOP}{END}\nExample:\n```\n3\n{END}", None, LOOP),
    (f"{ADD}{END}\nUse:\n{PY}{USE}{END}", "add", ADD),
    (f"Here is the code\n```\n{ADD}{END}", "add", ADD),
    (f"Note: it adds\n```\n{ADD}{END}", "add", ADD),
    # several blocks
    (f"```py\nprint(1)\n{END}{PY}print(2)\n{END}", None, "print(2)\n"),
    (f"{PY}print(1)\n{END}```\n3\n{END}", None, "print(1)\n"),
    (f"{PY}print(1)\n{END}```bash\npython x.py\n{END}", None, "print(1)\n"),
    (f"```json\n{{}}\n{END}{PY}print(1)\n{END}```text\n5\n{END}", None, "print(1)\n"),
    (f"```\n1 2\n{END}{PY}{LOOP}{END}", None, LOOP),
    (f"{PY}{ADD}{END}Example:\n{PY}{USE}{END}", "add", ADD),
    (f"{PY}{ADD}{END}Example:\n{PY}{USE}{END}", None, USE),
    (f"{PY}{ADD}{END}Example:\n{PY}{USE}{END}", "nowhere", USE),
    (f"{PY}{ADD}{END}Example:\n{PY}{USE}", "add", ADD),
    (f"{PY}{SOLUTION}{END}Use:\n{PY}print(Solution().run(1))\n{END}", "Solution", SOLUTION),
    (f"{PY}{SOLUTION}{END}Use:\n{PY}s = Solution()\nprint(s.run(1))\n{END}", "Solution", SOLUTION),
    (f"{PY}{SOLUTION}{END}Output:\n```\n2\n{END}", "Solution", SOLUTION),
    (f"{PY}{WRONG}{END}Wait, that subtracts.\n{PY}{ADD}{END}", "add", ADD),
    (f"{PY}{WRONG}{END}Wait:\n{PY}{ADD}{END}Use:\n{PY}{USE}{END}", "add", ADD),
    (f"{PY}add = lambda a, b: a + b\n{END}{PY}{USE}{END}", "add", "add = lambda a, b: a + b\n"),
    (f"{PY}async {ADD}{END}{PY}x\n{END}", "add", f"async {ADD}"),
    (f"{PY}add: type = sum\n{END}{PY}{USE}{END}", "add", "add: type = sum\n"),
    (f"{PY}{WRONG}{END}No:\n{PY}{ADD}{END}Then\n{PY}add == sum\n{END}", "add", ADD),
    (f"{PY}{LOOP}{END}Input:\n```\n3\n{END}Output:\n```\n0\n1\n4\n{END}", None, LOOP),
    (f"{PY}first\n{END}text\n{PY}second, cut o", None, "first\n"),
    (f"{PY}print(1)\n{END}and then {PY}no", None, "print(1)\n"),
    (f"{PY}{ADD}{END}Its signature is:\n{PY}def add(a, b): ...\n{END}", "add", ADD),
    (f"{PY}{ADD}{END}that is\n```\ndef add(a, b):\n{END}", "add", ADD),
    (f"{PY}def add(a, b):\n    pass\n{END}becomes\n{PY}{ADD}{END}", "add", ADD),
    (blocks(ADD, "def add(a, b):\n    raise NotImplementedError\n"), "add", ADD),
    (blocks(ADD, "def add(a, b):\n    'Add.'\n    raise NotImplementedError('x')\n"), "add", ADD),
    (f"{PY}def add(a, b): ...\n{END}", "add", "def add(a, b): ...\n"),
    ("```\ndef adder(): 1\n```\n```\nx\n```", "add", "x\n"),
    ("```\ndef a(): 1\n```\n```\nx\n```", "[", "x\n"),
    (f"```cpp\nint add(int a, int b);\n{END}or in Python\n{PY}{ADD}{END}", "add", ADD),
    # the program in several blocks
    (f"{PY}{PRIME}{END}With it:\n{PY}{SIEVE}{END}", "primes", f"{PRIME}\n{SIEVE}"),
    (f"{PY}{SIEVE}{END}where\n{PY}{PRIME}{END}", "primes", f"{SIEVE}\n{PRIME}"),
    (f"{PY}{IMPORT}{END}\n{PY}{ROOT}{END}", "root", f"{IMPORT}\n{ROOT}"),
    (f"{PY}LIMIT = 3\n{END}{PY}{LIMITED}{END}", "f", f"LIMIT = 3\n\n{LIMITED}"),
    (f"{PY}{TYPES}{END}{PY}{TYPED}{END}", "Solution", f"{TYPES}\n{TYPED}"),
    (f"{PY}{ADD}{END}The rest:\n{PY}{MAIN}{END}", None, f"{ADD}\n{MAIN}"),
    (f"{PY}{PRIME}print(is_prime(7))\n{END}{PY}{SIEVE}{END}", "primes", SIEVE),  # it would print
    (f"{PY}n = int(input())\n{END}{PY}{LOOP}{END}", None, LOOP),  # nothing is lacking
    (blocks(PRIME, FUTURE + SIEVE), "primes", f"{FUTURE}{PRIME}\n{SIEVE}"),
    (blocks(FUTURE + PRIME, SIEVE), "primes", f"{FUTURE}{PRIME}\n{SIEVE}"),
    (blocks(FUTURE + PRIME, DOC + FUTURE + SIEVE), "primes", f"{FUTURE}{PRIME}\n{DOC}{SIEVE}"),
    (blocks(ADD, FUTURE + MAIN), None, f"{FUTURE}{ADD}\n{MAIN}"),
    (f"{PY}{PRIME}{END}not needed:\n{PY}{ADD}{END}", "add", ADD),
    # a program that reads the input, and what follows it
    (f"{PY}{LOOP}{END}Example:\n{PY}print(2)\n{END}", None, LOOP),
    (f"{PY}{LOOP}{END}Check:\n{PY}assert 1 + 1 == 2\n{END}", None, LOOP),
    (f"```\n{LOOP}{END}Check:\n{PY}>>> 1 + 1\n2\n{END}", None, LOOP),
    (f"{PY}{READ}{END}{PY}x()\n{END}", None, READ),
    (f"{PY}{MAINS}{END}and\n{PY}{GUARD}{END}", None, f"{MAINS}\n{GUARD}"),
    (f"```python3.11\n{LOOP}{END}Output:\n```\n2\n{END}", None, LOOP),
    (f"```python3.12\n{USE}{END}Output:\n```\n3\n{END}", None, USE),
    (f"```py3.9\n{ADD}{END}", "add", ADD),
    (f"```\n{USE}{END}Output:\n```\n1 2\n{END}", None, USE),
    (f"{LOOP}\n\nOutput:\n```\n1 2\n{END}", None, LOOP),
    (f"{PY}{LOOP}{END}No, it is\n{PY}{MAIN}{END}", None, MAIN),  # both read it: the last one
    (f"```code\n{LOOP}{END}Output:\n```text\n0\n1\n{END}", None, LOOP),
    (f"```plaintext\n{LOOP}{END}Output:\n```text\n0\n1\n{END}", None, LOOP),
    (f"```ipython\n{ADD}{END}Use:\n```ipython\n{USE}{END}", "add", ADD),
    (f"```pypy3\n{LOOP}{END}Output:\n```\n0\n1\n{END}", None, LOOP),
    # a program, and excerpts that explain it
    (blocks(SHORT_SUM, "n = int(input())\n"), None, SHORT_SUM),
    (blocks(SHORT_SUM, "n = int(input())  # the size\n"), None, SHORT_SUM),
    (blocks(SHORT_SUM, first(4, SHORT_SUM)), None, SHORT_SUM),  # which prints and ends
    (blocks(WHOLE, "n = int(input())\na = list(map(int, input().split()))\n"), None, WHOLE),
    (blocks(WHOLE, "    n = int(input())\n    if n == 0:\n        print(0)\n"), None, WHOLE),
    (blocks(WHOLE, KADANE_MAIN), None, WHOLE),  # it lacks `max_sum`
    (blocks(WHOLE, first(8, KADANE_MAIN)) + f"and\n{PY}{GUARD}{END}", None, WHOLE),
    (blocks(WHOLE, "a = list(map(int, input().split()))\nprint(max_sum(a))\n"), None, WHOLE),
    (blocks(WHOLE, 'sys.stdin = io.StringIO("3\\n1 2 3")\nmain()\n'), None, WHOLE),
    (blocks(LOOP, f'import io, sys\nsys.stdin = io.StringIO("3")\n{LOOP}'), None, LOOP),
    (f"```\n{LOOP}{END}where\n```\nn = int(input())\n{END}reads.", None, LOOP),
    (blocks(ADD + USE, USE), None, ADD + USE),
    (blocks(KADANE, "def max_sum(a):\n    best = cur = a[0]\n"), "max_sum", KADANE),
    (blocks(KADANE, "def max_sum(a):\n    best = cur = a[0]\n    # ...\n"), "max_sum", KADANE),
    (blocks(KADANE, "def max_sum(a):\n    best = cur = a[0]\n    ...\n"), "max_sum", KADANE),
    (blocks(KADANE, first(6, KADANE)), "max_sum", KADANE),  # it ends in the head of a loop
    (blocks(KADANE, "   def max_sum(a):\n       best = cur = a[0]\n"), "max_sum", KADANE),
    (blocks(BOXED, first(3, BOXED)), "Box", BOXED),
    (blocks(PRIME + SIEVE + SIEVE_USE, SIEVE), "primes", PRIME + SIEVE + SIEVE_USE),
    # a later program that corrects an earlier one, also by fewer lines
    (blocks(SHORT_SUM, SHORT_SUM.replace("-=", "+=")), None, SHORT_SUM.replace("-=", "+=")),
    (blocks(f"{SHORT_SUM}print('debug')\n", SHORT_SUM), None, SHORT_SUM),
    (blocks(f"import sys\n{SHORT_SUM}", SHORT_SUM), None, SHORT_SUM),
    (blocks(f"import sys\nsys.stdin = open('a.txt')\n{LOOP}", LOOP), None, LOOP),
    (blocks(f"def main(:\n{LOOP}", LOOP), None, LOOP),  # the first one is no program
    (blocks(f"for i in range(2):\n{indented(LOOP)}", LOOP), None, LOOP),
    (blocks(ADD + MAIN, ADD), "add", ADD),  # which reads no input
    (blocks(WRONG, "def add(a, b):\n    return a\n"), "add", "def add(a, b):\n    return a\n"),
    (blocks(f"from math import gcd\n{MAIN}", STAR), None, STAR),
    # quotes in the place of backticks
    (f"Here:\n{QUOTES}python\n{ADD}{QUOTES}\nDone.", "add", ADD),
    (f"Here:\n{QUOTES}python\n{LOOP}{QUOTES}\nDone.", None, LOOP),
    (f'Here:\n"""Python3\r\n{LOOP}"""\r\nDone.', None, LOOP),
    (f"{QUOTES}python\n{ADD}{QUOTES}", "add", ADD),
    (f"1. So:\n   {QUOTES}py\n{indented(LOOP, '   ')}   {QUOTES}\n2. Done", None, LOOP),
    (f"Here:\n{QUOTES}python\n{QUOTES}\nDoc.\n{QUOTES}\n{ADD}{QUOTES}\n", "add", DOCUMENTED),
    (f"Here:\n{QUOTES}python\n{ADD}{QUOTES}\nUse:\n{QUOTES}python\n{USE}{QUOTES}", "add", ADD),
    (f"Here:\n{QUOTES}python\n{ADD}", "add", ADD),
    (f"Here:\n{QUOTES}python\ndef add(:\n{QUOTES}\nDone.", None, "def add(:\n"),
    (f"{TEXT}{LOOP}", None, f"{TEXT}{LOOP}"),
    (f"{PY}{TEXT}{END}", None, TEXT),
    # blocks in other wrapping
    (f"````markdown\nHere it is:\n{PY}{LOOP}{END}Done.\n````\n", None, LOOP),
    (f"```markdown\nHere it is:\n{PY}{LOOP}{END}Done.\n```\n", None, LOOP),
    (f"```md\n# Use\n{PY}{ADD}``` It adds.\n{PY}{USE}{END}```\n", "add", ADD),
    (f"```\nHere it is:\n{PY}{LOOP}{END}```\n", None, LOOP),
    ("> Sure:\n> ```python\n> if 1:\n>     x()\n> ```\nBye", None, "if 1:\n    x()\n"),
    (f"{PY}%%writefile a.py\n{LOOP}{END}", None, LOOP),
    ("```python print(1)```", None, "print(1)\n"),
    # special tokens
    (f"{BODY}<|endoftext|>", "add", BODY),
    (f"{BODY}<|im_end|>\n<|im_end|>", "add", BODY),
    (f"{BODY}</s>", "add", BODY),
    (f"{ADD}<|fim_middle|>", "add", ADD),
    (f"{ADD}<|file_sep|>b.py\n{WRONG}", "add", ADD),
    (f"{PY}{ADD}{END.strip()}<|im_end|>\n<|im_start|>user\n{PY}{WRONG}{END}", "add", ADD),
    (f"{PY}{ADD}{END}<｜end▁of▁sentence｜>{PY}{WRONG}{END}", "add", ADD),
    ("print('<|im_end|>')<|im_end|>", None, "print('<|im_end|>')"),
    (f"{PY}print('<|im_end|>')\n{END}", None, "print('<|im_end|>')\n"),
    (f"<s>old</s> {PY}{ADD}{END}", "add", ADD),
    # tags
    (f"[PYTHON]\n{ADD}[/PYTHON]\n[TESTS]\nassert add(1, 2) == 3\n[/TESTS]", "add", ADD),
    (f"[PYTHON]\n{LOOP}[/PYTHON]", None, LOOP),
    (f"Here:\n<pre><code>{ADD}</code></pre>\nIt adds.", "add", ADD),
    (f'<pre class="x">\n<code class="language-python">\n{LOOP}</code></pre>', None, LOOP),
    ("<pre><code>\nprint(1 &lt; 2 &amp; 3)\n</code></pre>", None, "print(1 < 2 & 3)\n"),
    ("<pre><code>\nprint('&lt;' > 'a')\n</code></pre>", None, "print('&lt;' > 'a')\n"),
    (f"<code class='python'>\n{ADD}</code>", "add", ADD),
    (f"<|python_tag|>{LOOP}<|eom_id|>", None, LOOP),
    (f"<|python_tag|>{ADD}", "add", ADD),
    (f"Sure.\n\n**```python**\n{ADD}**```**\nIt adds.", "add", ADD),
    (f"**```python**\n{LOOP}```\n", None, LOOP),
    (f"{ADD}[DONE]\n", "add", ADD),
    (f"[BEGIN]\n{ADD}[DONE]\nYou are", "add", ADD),
    (f"{ADD}[DONE]\n\nYou are an expert. [BEGIN]\n{WRONG}", "add", ADD),
    (f"<|begin_of_solution|>\n{ADD}<|end_of_solution|>", "add", ADD),
    (f"<think>\n{PY}{WRONG}{END}No.</think>\n<answer>\n{ADD}</answer>", "add", ADD),
    (f"<think>add them</think><answer>\n{PY}{ADD}{END}</answer>", "add", ADD),
    (f"<think>\n{PY}no\n{END}</think>\n{PY}yes\n{END}", None, "yes\n"),
    (f"<think>\nOne ```python block.\n{PY}{WRONG}no, </think>\n{PY}{ADD}{END}", "add", ADD),
    (f"<think>\n{PY}{WRONG}{END}</think>\n{LOOP}", None, f"\n{LOOP}"),
    (f"<think>\n{PY}{WRONG}{END}</think>\n{PY}{ADD}", "add", ADD),
    (f"<think>\n{PY}{ADD}{END}</think>\n", "add", ADD),  # it says nothing else
    (f"<answer>\n{indented(LOOP)}</answer>\n", None, LOOP),
    (f"{PY}{ADD}{END}<answer>The function adds.</answer>", "add", ADD),
    (f"{PY}{LOOP}{END}\n<answer>9</answer>", None, LOOP),
    (f"<answer>\n{LOOP}", None, LOOP),
]  # fmt: skip
