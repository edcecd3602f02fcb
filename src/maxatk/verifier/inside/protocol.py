"""What host and sandboxes say to each other: fixed binary records in two memory files.

The host puts table, program and payloads into the job file and one `REQUEST` into a pipe; the
program process fills the results file (one `RESULT` a test, then the outputs, in order) and the
zygote answers one `REPLY` when the program process is gone. Expected outputs are in none of it.

A builder is given arguments and source in the job file and one `BUILD`; it leaves what the compiler
said and the object in the results file and answers one `BUILT`.
"""

import struct

# tests, time-outs after which to stop (0: never), program bytes, CPU limit (s), wall limit (s),
# idle seconds of all tests together, compile limit (s), memory (bytes), output of a test (bytes),
# output of all tests together (bytes), how the program is entered
REQUEST = struct.Struct("<IIQddddQQQB")
KILL = struct.Struct("<i")  # the process that a program process wants to be killed
REPLY = struct.Struct("<id")  # the program process's wait status and CPU seconds
# payload bytes, kind of test, how many of the bytes are the name of a check test's function
TEST = struct.Struct("<QBH")
# wait status, ending, CPU (s), wall (s), peak memory (bytes), bytes of output, of stderr
RESULT = struct.Struct("<iBddQQQ")

# The three parts of a checker's payload: input, expected output, the program's output (bytes)
CHECKER_SIZES = struct.Struct("<QQQ")

# bytes of the arguments and of the source, CPU limit (s), wall limit (s), memory (bytes), bytes of
# a file
BUILD = struct.Struct("<QQddQQ")
# wait status, whether the wall clock ran out, CPU (s), bytes of the message, bytes of the object
BUILT = struct.Struct("<i?dQQ")

BUSIEST = 32.0  # wall seconds in which a process gets one CPU second on the busiest machine

# What the program bytes are: Python's source, or a shared object that may start threads or not.
ENTER_PYTHON = 0
ENTER_NATIVE = 1
ENTER_NATIVE_WITH_THREADS = 2

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
