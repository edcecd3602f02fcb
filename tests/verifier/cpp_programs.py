"""Programs in C++ as people and models write them, with tests and a way to make them wrong."""

from __future__ import annotations

from typing import NamedTuple

STD = "#include <bits/stdc++.h>\nusing namespace std;\n"


class Honest(NamedTuple):
    """A right program, the pairs of its tests, and what to change in it so that it is wrong."""

    program: str
    tests: tuple[tuple[str, str], ...]
    change: tuple[str, str]


HONEST = {
    "sum": Honest(
        "#include <iostream>\n"
        "int main() {\n    long long a, b;\n    std::cin >> a >> b;\n"
        "    std::cout << a + b << std::endl;\n}\n",
        (("1 2\n", "3"), ("5 -7\n", "-2"), ("4000000000 1\n", "4000000001")),
        ("long long", "int"),
    ),
    "input by its name": Honest(
        STD + 'int main() { freopen("/dev/stdin", "r", stdin); ifstream again("/dev/stdin");'
        " int a, b; cin >> a; again >> b; cout << a + b; }",
        (("3\n", "6"), ("5\n", "10")),
        ("a + b", "a - b"),
    ),
    "sort": Honest(
        STD + "int main() { int n; cin >> n; vector<int> v(n); for (auto &x : v) cin >> x;"
        " sort(v.begin(), v.end()); for (int x : v) cout << x << ' '; }",
        (("3\n3 1 2\n", "1 2 3"), ("1\n5\n", "5")),
        ("v.end()", "v.end() - 1"),
    ),
    "deep recursion": Honest(
        STD + "vector<int> g[1000005];\n"
        "int dfs(int u, int p) { int r = 0; for (int v : g[u]) if (v != p)"
        " r = max(r, dfs(v, u) + 1); return r; }\n"
        'int main() { int n; scanf("%d", &n); for (int i = 2; i <= n; i++) { g[i].push_back(i - 1);'
        ' g[i - 1].push_back(i); } printf("%d\\n", dfs(1, 0)); }',
        (("100000\n", "99999"), ("1000000\n", "999999")),
        ("+ 1)", "+ 2)"),
    ),
    "static constructors": Honest(
        STD + 'struct T { T() { puts("begin"); } ~T() { puts("end"); } } t;\n'
        'int main() { puts("main"); return 0; }',
        (("", "begin main end"),),
        ('"end"', '"ends"'),
    ),
    "exit without return": Honest(
        STD + "int main() { cout << 7; exit(0); }", (("", "7"),), ("exit", "_exit")
    ),
    "at exit": Honest(
        STD + 'int main() { atexit([] { puts("last"); }); puts("first"); }',
        (("", "first last"),),
        ('"last"', '"least"'),
    ),
    "names of the library": Honest(
        STD + "int y2, index_, environ_, n, counts[1 << 20], time_[10];\n"
        'namespace q { int read() { int x; scanf("%d", &x); return x; } }\n'
        "int main() { n = q::read(); for (int i = 0; i < n; i++) counts[q::read()]++;"
        ' printf("%d\\n", *max_element(counts, counts + (1 << 20))); }',
        (("4\n1 1 2 1\n", "3"),),
        ("max_element", "min_element"),
    ),
    "fast input": Honest(
        STD + "int main() { ios::sync_with_stdio(false); cin.tie(nullptr); string s;"
        " map<string, int> m; while (cin >> s) m[s]++;"
        " for (auto &[k, v] : m) cout << k << ' ' << v << '\\n'; }",
        (("a b a\n", "a 2 b 1"), ("", "")),
        ("m[s]++", "m[s] = 1"),
    ),
    "getchar": Honest(
        "#include <cstdio>\nint main() { int c, n = 0; while ((c = getchar()) != EOF)"
        " n += c == 'x'; printf(\"%d\", n); }",
        (("x" * 100_000, "100000"), ("", "0")),
        ("n += ", "n = "),
    ),
    "threads": Honest(
        STD + "int main() { vector<thread> t; atomic<int> n{0};"
        " for (int i = 0; i < 4; i++) t.emplace_back([&] { for (int j = 0; j < 100; j++) n++; });"
        " for (auto &x : t) x.join(); cout << n; }",
        (("", "400"),),
        ("j < 100", "j < 99"),
    ),
    "exceptions": Honest(
        STD + 'int f(int n) { if (n < 0) throw runtime_error("below"); return n; }\n'
        "int main() { int n; cin >> n; try { cout << f(n); } catch (exception &e) {"
        " cout << e.what(); } }",
        (("3\n", "3"), ("-1\n", "below")),
        ('"below"', '"above"'),
    ),
    "operators of its own": Honest(
        STD + "static char pool[1 << 24]; static size_t used;\n"
        "void *operator new(size_t n) { void *p = pool + used; used += (n + 15) / 16 * 16;"
        " return p; }\n"
        "void operator delete(void *) noexcept {}\n"
        "void operator delete(void *, size_t) noexcept {}\n"
        "int main() { map<string, vector<string>> m; stringstream s; string w;"
        " while (cin >> w) { s << w << w << w << w << ' '; m[w].push_back(s.str()); }"
        " cout << m.size() << ' ' << s.str().size(); }",
        (("ab cd ab\n", "2 27"),),
        ("m.size()", "m.size() + 1"),
    ),
    "templates and lambdas": Honest(
        "#include <concepts>\n#include <iostream>\n#include <numeric>\n#include <ranges>\n"
        "#include <vector>\n"
        "template <std::integral T> T twice(T x) { return 2 * x; }\n"
        "int main() { std::vector<int> v(5); std::iota(v.begin(), v.end(), 1);"
        " auto even = v | std::views::filter([](int x) { return x % 2 == 0; });"
        " for (int x : even) std::cout << twice(x) << ' '; }",
        (("", "4 8"),),
        ("2 * x", "3 * x"),
    ),
    "pragmas": Honest(
        '#pragma GCC optimize("O3,unroll-loops")\n#pragma GCC target("sse4.2")\n'
        + STD
        + "#define int long long\nsigned main() { int n, s = 0; cin >> n;"
        " for (int i = 1; i <= n; i++) s += i * i % 7; cout << s; }",
        (("1000000\n", "1999999"),),
        ("% 7", "% 5"),
    ),
    "large arrays": Honest(
        STD + "int a[50000000];\nint main() { int n; cin >> n; for (int i = 0; i < n; i++)"
        " a[i] = i; cout << accumulate(a, a + n, 0LL); }",
        (("1000000\n", "499999500000"),),
        ("0LL", "0"),
    ),
    "doubles": Honest(
        STD + "int main() { double x; cin >> x; cout << fixed << setprecision(9) << sqrt(x); }",
        (("2\n", "1.414213562"),),
        ("sqrt", "cbrt"),
    ),
}
