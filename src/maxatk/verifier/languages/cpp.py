"""C++, by g++ or clang++."""

from __future__ import annotations

import re

from maxatk.verifier.languages.compiled import SHARED_OBJECT, compiled_language
from maxatk.verifier.languages.language import Compiler

CPP = compiled_language(
    "cpp",
    title="C++",
    marks=r"(?:c\+\+|cpp|cxx|cc)[\d.]*",
    seven="#include <iostream>\nint main() { std::cout << 7; }\n",
    compiler=Compiler(
        commands=("g++", "clang++"),
        source_name="program.cpp",
        flags=("-O2", "-std=c++20", "-DONLINE_JUDGE"),
        fixed=SHARED_OBJECT,
        runtime="libstdc++.so.6",
        header="bits/stdc++.h",
        no_memory=b"std::bad_alloc",
        # The library's own parts would go on with the functions that the library brings.
        replaces=re.compile(r"\boperator\s+(?:new|delete)\b"),
        static_flags=("-static-libstdc++", "-static-libgcc"),
    ),
)
