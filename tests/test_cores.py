"""The cores that a process may use: those that it sees, and the quota of its control group."""

import os

import pytest

from maxatk.cores import usable_cores

VISIBLE = 64


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that writes the files of a machine with 64 cores, and returns its root."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(VISIBLE)))

    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, VISIBLE),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, VISIBLE),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "9900000 100000\n"}, VISIBLE),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "what is this"}, VISIBLE),
        # A group below one with a smaller quota.
        (
            {
                "proc/self/cgroup": "0::/slice/job\n",
                "sys/fs/cgroup/slice/job/cpu.max": "800000 100000\n",
                "sys/fs/cgroup/slice/cpu.max": "200000 100000\n",
            },
            2,
        ),
        # Version 1; in a container the path is that of the host.
        (
            {
                "proc/self/cgroup": "5:memory:/\n4:cpu,cpuacct:/docker/abc\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "600000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            6,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            VISIBLE,
        ),
    ],
)
def test_a_quota_counts_where_it_is_smaller_than_what_is_visible(machine, files, cores):
    assert usable_cores(machine(files)) == cores


def test_this_machine_has_at_least_one_core_and_no_more_than_it_may_run_on():
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))


def test_the_verifier_has_as_many_workers(monkeypatch):
    from maxatk.verifier import Verifier

    monkeypatch.setattr("maxatk.verifier.verifier.usable_cores", lambda: 3)
    with Verifier() as verifier:
        assert verifier.workers == 3
