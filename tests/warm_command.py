"""A `maxatk` that is warm: each command is a fork of one process that has imported everything.

A new interpreter takes 5 to 7 s of processor time to import what `maxatk eval` and `maxatk train`
need, and a tutorial has ten such commands. `warm_command.py serve SOCKET` listens;
`warm_command.py call SOCKET ARGUMENTS` has the arguments run there, with its own streams, folder
and environment, and ends with their status.
"""

import json
import os
import signal
import socket
import sys


def serve(path):
    """Run every command that comes, until this process is killed."""
    from transformers import AutoModelForCausalLM  # noqa: F401
    from trl import GRPOTrainer  # noqa: F401

    import maxatk.train  # noqa: F401
    from maxatk.cli.main import main

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
        while True:
            caller, _ = server.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                return answer(caller, main)
            caller.close()


def answer(caller, main):
    """Run the command of one caller in a process of its own and send its status."""
    message, streams, _, _ = socket.recv_fds(caller, 1 << 20, 3)
    request = json.loads(message)
    command = os.fork()
    if command:
        status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        caller.send(bytes([status % 256]))
        os._exit(0)
    caller.close()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    sys.stdin = os.fdopen(0)
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1)
    sys.argv = ["maxatk", *request["arguments"]]
    return main(request["arguments"])


def call(path, arguments):
    """Have the arguments run as if this process ran them."""
    here = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(path)
        socket.send_fds(server, [json.dumps(here).encode()], [0, 1, 2])
        return server.recv(1)[0]


if __name__ == "__main__":
    _, verb, path, *arguments = sys.argv
    sys.exit(serve(path) if verb == "serve" else call(path, arguments))
