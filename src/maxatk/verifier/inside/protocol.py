"""What host and zygote say to each other: fixed binary records in two memory files.

The host puts table, source and payloads into the job file and one `REQUEST` into a pipe; the
program process fills the results file (one `RESULT` a test, then the outputs, in order) and the
zygote answers one `REPLY` when the program process is gone. Expected outputs are in none of it.
"""

import struct

# tests, time-outs after which to stop (0: never), source bytes, CPU limit (s), wall limit (s), idle
# seconds of all tests together, compile limit (s), memory (bytes), output of a test (bytes), output
# of all tests together (bytes)
REQUEST = struct.Struct("<IIQddddQQQ")
KILL = struct.Struct("<i")  # the process that a program process wants to be killed
REPLY = struct.Struct("<id")  # the program process's wait status and CPU seconds
# payload bytes, kind of test, how many of the bytes are the name of a check test's function
TEST = struct.Struct("<QBH")
# wait status, ending, CPU (s), wall (s), peak memory (bytes), bytes of output, of stderr
RESULT = struct.Struct("<iBddQQQ")

# The three parts of a checker's payload: input, expected output, the program's output (bytes)
CHECKER_SIZES = struct.Struct("<QQQ")

KIND_STDIN = 0
KIND_CALL = 1
KIND_CHECK = 2
KIND_CHECKER = 3
# How a test came to its end; 0 in the record of a test that was never started.
NOT_STARTED = 0
EXITED = 1
CPU_LIMIT = 2
WALL_LIMIT = 3
OUTPUT_FULL = 4
# Exit statuses with a meaning; a program that imitates one only names its own failure.
EXIT_REJECTED = 96
EXIT_MEMORY = 97
EXIT_BAD_VALUE = 98
EXIT_COMPILE_ERROR = 3

STDERR_BYTES = 2048
MAX_ENTRY_POINT = 1000  # bytes
