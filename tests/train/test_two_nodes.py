"""`accelerate launch` on two nodes: two network namespaces, each with an address and a name."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from processes import patience

from .conftest import GROUP
from .launching import TESTS
from .test_two_processes import CPUS, check_ranks

ADDRESSES = ("10.213.7.1", "10.213.7.2")
PORT = "29517"


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


@contextlib.contextmanager
def two_namespaces():
    """Yield the names of two network namespaces joined by a cable; skip where none can be made."""
    names = [f"maxatk-{os.getpid()}-{rank}" for rank in (0, 1)]
    ends = [f"mx{os.getpid() % 10**6}n{rank}" for rank in (0, 1)]
    try:
        made = [ip("netns", "add", name) for name in names]
        made.append(ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1]))
        for name, end, address in zip(names, ends, ADDRESSES, strict=True):
            made.append(ip("link", "set", end, "netns", name))
            made.append(ip("-n", name, "addr", "add", f"{address}/24", "dev", end))
            made += [ip("-n", name, "link", "set", device, "up") for device in (end, "lo")]
        failed = [process.stderr for process in made if process.returncode]
        if failed:
            pytest.skip(f"network namespaces cannot be made here: {failed[0]}")
        yield list(zip(names, ends, strict=True))
    finally:
        for name in names:
            ip("netns", "del", name)  # its end of the cable goes with it, and the other end too


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("ip") or os.geteuid() != 0, reason="needs ip and root")
def test_two_nodes_with_groups_in_pieces_match_brute_force(model_folder, tmp_path):
    script = [TESTS / "train" / "two_processes.py", model_folder, tmp_path, GROUP // 2]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    with two_namespaces() as nodes:
        running = []
        for rank, (name, device) in enumerate(nodes):
            launch = [sys.executable, "-m", "accelerate.commands.launch"]
            launch += ["--config_file", str(CPUS), "--num_machines", "2", "--num_processes", "2"]
            launch += ["--machine_rank", str(rank), "--main_process_ip", ADDRESSES[0]]
            launch += ["--main_process_port", PORT, *map(str, script)]
            inside = ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c"]
            shell = f'hostname node-{rank} && exec "$@"'
            running.append(
                subprocess.Popen(
                    [*inside, shell, "sh", *launch],
                    env={
                        **os.environ,
                        "PYTHONPATH": path,
                        "OMP_NUM_THREADS": "1",
                        "GLOO_SOCKET_IFNAME": device,
                    },
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        try:
            for node in running:
                _, errors = node.communicate(timeout=patience(200))
                assert node.returncode == 0, errors[-3000:]
        finally:
            for node in running:
                node.kill()
    check_ranks(model_folder, tmp_path, whole=False)
