"""Files that only supervising processes can write, and that tests find under a fixed name.

Each folder is a file system of its own: descriptors that were opened first write through it, and
all paths lead to a second mount of it, which is read-only.
"""

CHECKER_FOLDER = "/checker"
CHECKER_NAMES = ("input.txt", "correct_output.txt", "solution_output.txt")
OBJECT_FOLDER = "/program"
OBJECT_NAME = "program.so"
INPUT_FOLDER = "/stdin"
INPUT_NAME = "stdin"
INPUT_LINKS = ("/dev/stdin", "/dev/fd/0")

FOLDERS = {
    CHECKER_FOLDER: CHECKER_NAMES,
    OBJECT_FOLDER: (OBJECT_NAME,),
    INPUT_FOLDER: (INPUT_NAME,),
}
"""The names of the files by folder."""
