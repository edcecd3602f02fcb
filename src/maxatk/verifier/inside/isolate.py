"""The layers around a zygote that are set up once: namespaces, a private root, another user.

Every layer is tried on its own and reported by name, because hosts differ. What must hold is
decided elsewhere.
"""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import ctypes
import os
import resource
import sys

from maxatk.verifier.inside import given_files, landlock, scratch, supervise, syscalls

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from maxatk.verifier.inside.seccomp import Filter

# Flags of unshare, mount and mount_setattr, as the kernel's headers have them.
_NEWNS = 0x00020000
_NEWUTS = 0x04000000
_NEWIPC = 0x08000000
_NEWUSER = 0x10000000
_NEWPID = 0x20000000
_NEWNET = 0x40000000
_MS_RDONLY = 1
_MS_NOSUID = 2
_MS_NODEV = 4
_MS_NOATIME = 1024
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_ATTR_RDONLY = 1
_DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]
_MAX_FILES = 256
_MAX_TASKS = 128  # processes and threads of one worker together

Layers = dict[str, bool | str]
GivenFiles = dict[str, list[int]]
"""Descriptors of the files that only supervising processes can write, by their folder."""


def confine(
    paths: list[str],
    uid: int,
    descriptors: list[int],
    *,
    readable: list[str],
    executable: list[str],
    given_files: GivenFiles,
    mount_options: str,
    stack: int,
    own_filter: Filter,
) -> Layers:
    """Set up all layers, in the order in which none takes away what another needs; say what held.

    The process that returns is a child, and holds the pipes `descriptors` alone. Of the `paths` in
    its file tree those that are `readable` can be read and those that are `executable` also be run.
    The others are as in the two functions that follow; `own_filter` is for this process.
    """
    folder = scratch.place(paths)
    layers = enter_namespaces(
        paths, uid, folder=folder, mount_options=mount_options, given_files=given_files
    )
    supervise.leave_a_keeper(descriptors)
    layers = drop_privileges(
        layers,
        readable,
        uid,
        folder=folder,
        given_files=given_files,
        stack=stack,
        executable=executable,
    )
    # A change of user clears it; the new parent may also have died in the meantime.
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    layers["seccomp"] = attempt(own_filter.install)
    return layers


def enter_namespaces(
    paths: list[str], uid: int, *, folder: str, mount_options: str, given_files: GivenFiles
) -> Layers:
    """Leave the host's namespaces and file tree as far as the host allows; say what held.

    The new file tree holds `paths`, the scratch `folder` with `mount_options`, and the folders that
    are keys of `given_files`, whose values get the descriptors of their files.
    """
    layers: Layers = {}
    if os.geteuid() != 0:
        layers["user_namespace"] = attempt(_unshare_user)
    for name, flag in (("network", _NEWNET), ("ipc", _NEWIPC | _NEWUTS)):
        layers[f"{name}_namespace"] = attempt(_unshare, flag)
    layers["private_root"] = attempt(_enter_private_root, paths, [folder, *given_files])
    layers["scratch_folder"] = "there is no private root"
    if layers["private_root"] is True:
        layers["scratch_folder"] = attempt(
            _mount_folders, paths, folder, mount_options, given_files
        )
    layers["own_uid"] = attempt(_check_uid_drop, paths, uid)
    # Last: the very next child becomes process 1 of the new namespace.
    layers["pid_namespace"] = attempt(_unshare, _NEWPID)
    return layers


def drop_privileges(
    layers: Layers,
    readable: list[str],
    uid: int,
    *,
    folder: str,
    given_files: GivenFiles,
    stack: int,
    executable: list[str],
) -> Layers:
    """Give up user, capabilities and the right to gain any; restrict files and resources.

    Files below `readable` may be read, those below `executable` be run, and those in the scratch
    `folder` be written. The stack may grow to `stack` bytes.
    """
    if layers["own_uid"] is True:
        if layers["scratch_folder"] is True:
            os.chown(folder, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the interface, this process
    no_capabilities = (ctypes.c_uint32 * 6)()
    number = syscalls.NR_CAPSET[os.uname().machine]
    syscalls.syscall(number, ctypes.byref(header), ctypes.byref(no_capabilities))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    layers = {**layers, "capabilities_dropped": True}
    writable: list[str] = []
    if layers["scratch_folder"] is True:
        writable = [folder]
        readable = [*readable, *given_files]
    layers["landlock"] = attempt(landlock.restrict, readable, _DEVICES, writable, executable)
    if writable:
        os.chdir(writable[0])
    own_count = layers["own_uid"] is True or layers.get("user_namespace") is True
    layers["rlimits"] = attempt(_set_limits, own_count, stack)
    return layers


def attempt(function: object, *args: object) -> bool | str:
    """Return True, or the reason why the layer could not be had."""
    try:
        function(*args)  # type: ignore[operator]
    except (OSError, ValueError) as error:  # ValueError: a limit above the one inherited
        return str(error)
    return True


def _unshare(flags: int) -> None:
    syscalls.check(syscalls.LIBC.unshare(flags), f"unshare({flags:#x})")


def _unshare_user() -> None:
    uid = os.geteuid()
    gid = os.getegid()
    _unshare(_NEWUSER)
    texts = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in texts.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _enter_private_root(paths: list[str], folders: list[str]) -> None:
    """Make a read-only file tree that holds paths of the host, four devices and empty folders."""
    _unshare(_NEWNS)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    os.mkdir("/tmp/old")
    syscalls.syscall(syscalls.NR_PIVOT_ROOT[os.uname().machine], b"/tmp", b"/tmp/old")
    os.chdir("/")  # the current folder is still one of the old tree
    for path in [*paths, *_DEVICES]:
        _bind(path)
    syscalls.check(syscalls.LIBC.umount2(b"/old", _MNT_DETACH), "umount2")
    os.rmdir("/old")
    for folder in folders:
        os.mkdir(folder)
    if given_files.INPUT_FOLDER in folders:
        for link in given_files.INPUT_LINKS:
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(f"{given_files.INPUT_FOLDER}/{given_files.INPUT_NAME}", link)
    _mount(None, "/", None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _mount_folders(paths: list[str], folder: str, mount_options: str, files: GivenFiles) -> None:
    """Make the libraries read-only, whoever owns them, and only then a place to write to."""
    read_only = (ctypes.c_uint64 * 4)(_ATTR_RDONLY, 0, 0, 0)  # struct mount_attr
    for path in filter(os.path.exists, paths):
        syscalls.syscall(
            syscalls.NR_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE,
            ctypes.byref(read_only), ctypes.c_size_t(ctypes.sizeof(read_only)),
        )  # fmt: skip
    _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, mount_options)
    for given_folder, descriptors in files.items():
        descriptors += _mount_given(given_folder)


def _mount_given(folder: str) -> list[int]:
    """Mount one of `given_files.FOLDERS`; return the descriptors that can write its files."""
    # Of any size: what the host writes there is bounded by what it holds itself. The descriptors
    # write through the first mount, and all paths lead to the second one, which is read-only. The
    # files outlive a program, so that the next one must not find when they were read.
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOATIME
    _mount("tmpfs", folder, "tmpfs", flags, "size=0,mode=755")
    descriptors = [
        os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT, 0o444)
        for name in given_files.FOLDERS[folder]
    ]
    _mount(folder, folder, None, _MS_BIND)
    _mount(None, folder, None, flags | _MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    return descriptors


def _bind(path: str) -> None:
    source = "/old" + path
    if not os.path.exists(source):
        return
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o444))
    _mount(source, path, None, _MS_BIND | _MS_REC)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    result = syscalls.LIBC.mount(*texts, ctypes.c_ulong(flags), data.encode())
    syscalls.check(result, f"mount on {target}")


def _check_uid_drop(paths: list[str], uid: int) -> None:
    """Raise OSError unless the interpreter's libraries can still be read as that user."""
    if os.geteuid() != 0:
        raise OSError("not started as root: programs run as the user of the host process")
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os._exit(0 if all(os.access(path, os.R_OK | os.X_OK) for path in paths[:1]) else 1)
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError(f"{paths[0]} cannot be read by another user; install Python elsewhere")


def _set_limits(own_count: bool, stack: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_FILES, _MAX_FILES))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = stack if hard == resource.RLIM_INFINITY else min(stack, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    if own_count:  # otherwise the user's other processes count as well
        resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_TASKS, _MAX_TASKS))


def library_paths(more: list[str]) -> list[str]:
    """Return the folders of the interpreter's libraries, the standard library first, and `more`."""
    stdlib = os.path.dirname(os.__file__)
    paths = [stdlib, *(path for path in sys.path if os.path.isdir(path))]
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if line.rstrip().endswith(".so")}
    paths += sorted({os.path.dirname(path) for path in loaded})
    paths += ["/lib", "/lib64", "/usr/lib", "/usr/lib64", *more]
    folders = dict.fromkeys(os.path.realpath(path) for path in paths if os.path.isdir(path))
    # A folder below another one comes with it.
    below = tuple(f"{folder}/" for folder in folders)
    return [folder for folder in folders if not folder.startswith(below)]
