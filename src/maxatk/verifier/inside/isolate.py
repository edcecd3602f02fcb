"""The layers around a zygote that are set up once: namespaces, a private root, another user.

Every layer is tried on its own and reported by name, because hosts differ. What must hold is
decided elsewhere.
"""

import ctypes
import os
import resource
import sys

from maxatk.verifier.inside import landlock, scratch, syscalls
from maxatk.verifier.inside.checker_files import CHECKER_FOLDER, CHECKER_NAMES

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
_STACK = 64 << 20  # the kernel keeps 128 MiB free below the stack, whatever the limit at start

Layers = dict[str, bool | str]


def enter_namespaces(paths: list[str], uid: int, checker_files: list[int]) -> Layers:
    """Leave the host's namespaces and file tree as far as the host allows; say what held.

    `checker_files` gets descriptors of the files that only the supervising processes can write.
    """
    layers: Layers = {}
    folder = scratch.place(paths)
    if os.geteuid() != 0:
        layers["user_namespace"] = attempt(_unshare_user)
    for name, flag in (("network", _NEWNET), ("ipc", _NEWIPC | _NEWUTS)):
        layers[f"{name}_namespace"] = attempt(_unshare, flag)
    layers["private_root"] = attempt(_enter_private_root, paths, folder)
    layers["scratch_folder"] = "there is no private root"
    if layers["private_root"] is True:
        layers["scratch_folder"] = attempt(_mount_folders, paths, folder, checker_files)
    layers["own_uid"] = attempt(_check_uid_drop, paths, uid)
    # Last: the very next child becomes process 1 of the new namespace.
    layers["pid_namespace"] = attempt(_unshare, _NEWPID)
    return layers


def drop_privileges(layers: Layers, paths: list[str], uid: int) -> Layers:
    """Give up user, capabilities and the right to gain any; restrict files and resources."""
    if layers["own_uid"] is True:
        if layers["scratch_folder"] is True:
            os.chown(scratch.place(paths), uid, uid)
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
    readable = paths
    if layers["scratch_folder"] is True:
        writable = [scratch.place(paths)]
        readable = [*paths, CHECKER_FOLDER]
    layers["landlock"] = attempt(landlock.restrict, readable, _DEVICES, writable)
    if writable:
        os.chdir(writable[0])
    own_count = layers["own_uid"] is True or layers.get("user_namespace") is True
    layers["rlimits"] = attempt(_set_limits, own_count)
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


def _enter_private_root(paths: list[str], folder: str) -> None:
    """Make a file tree that holds the interpreter's libraries and four devices, read-only."""
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
    os.mkdir(folder)
    os.mkdir(CHECKER_FOLDER)
    _mount(None, "/", None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _mount_folders(paths: list[str], folder: str, checker_files: list[int]) -> None:
    """Make the libraries read-only, whoever owns them, and only then a place to write to."""
    read_only = (ctypes.c_uint64 * 4)(_ATTR_RDONLY, 0, 0, 0)  # struct mount_attr
    for path in filter(os.path.exists, paths):
        syscalls.syscall(
            syscalls.NR_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE,
            ctypes.byref(read_only), ctypes.c_size_t(ctypes.sizeof(read_only)),
        )  # fmt: skip
    _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, scratch.MOUNT_OPTIONS)
    # Of any size: what the host writes there is bounded by what it holds itself. The descriptors
    # write through the first mount, and all paths lead to the second one, which is read-only.
    _mount("tmpfs", CHECKER_FOLDER, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=0,mode=755")
    for name in CHECKER_NAMES:
        path = f"{CHECKER_FOLDER}/{name}"
        checker_files.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o444))
    _mount(CHECKER_FOLDER, CHECKER_FOLDER, None, _MS_BIND)
    read_only_bind = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    _mount(None, CHECKER_FOLDER, None, read_only_bind)


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


def _set_limits(own_count: bool) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_FILES, _MAX_FILES))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = _STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
    if own_count:  # otherwise the user's other processes count as well
        resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_TASKS, _MAX_TASKS))


def library_paths() -> list[str]:
    """Return the folders that hold the interpreter's libraries, the standard library first."""
    stdlib = os.path.dirname(os.__file__)
    paths = [stdlib, *(path for path in sys.path if os.path.isdir(path))]
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if line.rstrip().endswith(".so")}
    paths += sorted({os.path.dirname(path) for path in loaded})
    paths += ["/lib", "/lib64", "/usr/lib", "/usr/lib64"]
    folders = dict.fromkeys(os.path.realpath(path) for path in paths if os.path.isdir(path))
    # A folder below another one comes with it.
    below = tuple(f"{folder}/" for folder in folders)
    return [folder for folder in folders if not folder.startswith(below)]
