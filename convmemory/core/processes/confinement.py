"""Confines a process that reads foreign data to its input, its working folder and the Python environment.

Landlock restricts files, TCP and signals; a seccomp filter refuses sockets, other processes' memory and further calls
that Landlock does not cover; the capabilities of root are dropped. All of it is permanent and includes later child
processes. Each part that the kernel lacks is left out, and `missing_parts` names it. The system calls are made through
ctypes: they are few, and the calls 444 to 446 have the same numbers on every processor. Imports nothing from Django.

Source: https://docs.kernel.org/userspace-api/landlock.html, seccomp(2), capset(2)
"""

import ctypes
import errno
import functools
import os
import platform
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from convmemory.core.program import IS_CHECKOUT

_PACKAGE = Path(__file__).resolve().parents[2]
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_PR_SET_SECCOMP, _SECCOMP_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38
_RULE_PATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_READ = _READ_FILE | _READ_DIR
_CHANGE = _WRITE_FILE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12 | _REFER | _TRUNCATE  # make and remove, no devices
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # rights that a version of Landlock knows
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6

# Sources of libraries, time zones, fonts and the processor count.
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone", "/etc/mime.types",
    "/etc/fonts", "/etc/alternatives", "/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat",
    "/sys/devices/system/cpu", "/dev/urandom", "/dev/random", "/dev/zero",
)  # fmt: skip

# Numbers of system calls: x86_64, aarch64; None where there is no such call.
_REFUSED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "mount": (165, 40),
    "umount2": (166, 39), "unshare": (272, 97), "setns": (308, 268), "chmod": (90, None), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "chown": (92, None), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "removexattr": (197, 14), "lremovexattr": (198, 15), "setpriority": (141, 140),
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
}  # fmt: skip
_REFUSED_ALONE = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "execve": (59, 221), "execveat": (322, 281),
}  # fmt: skip
_PRLIMIT = (302, 261)  # only of this process, which also reads its limits with it
_PROCESSORS = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, name in seccomp's data
_X32 = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM

_CAP_VERSION = 0x20080522
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: Landlock restricts the files


@dataclass(frozen=True, slots=True)
class Access:
    """The paths that a confined process may use in addition to the Python environment; `writable` ones can also be
    read.

    With `programs` it may start programs, and signal those that it started. Sockets opened before stay usable.
    """

    readable: Iterable[Path] = ()
    writable: Iterable[Path] = ()
    programs: bool = False


def confine_this_process(access: Access) -> None:
    """Confine this process, which must have one thread only, for good. Temporary files go to the first of `writable`.

    Raises: OSError if the kernel has a means of confinement and refuses to apply it.
    """
    for folder in access.writable:
        if folder.is_dir():
            tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
            break
    if sys.platform != "linux":
        return
    _called(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    # Drop root's capabilities except reading and writing files of other users, which Landlock restricts.
    if os.geteuid() == 0 and has_seccomp():  # the call numbers below are known for these processors only
        get, set_ = (125, 126) if platform.machine() == "x86_64" else (90, 91)
        header = struct.pack("=Ii", _CAP_VERSION, 0)
        data = ctypes.create_string_buffer(struct.calcsize("=6I"))
        _called(_libc().syscall(get, header, data), "capget")
        kept = struct.unpack_from("=6I", data)[1] & _KEPT_CAPABILITIES  # effective, permitted, inheritable, by 32 bits
        _called(_libc().syscall(set_, header, struct.pack("=6I", kept, kept, 0, 0, 0, 0)), "capset")
    if landlock_version():
        version = landlock_version()
        handled = (1 << _FILE_RIGHTS.get(version, 16)) - 1
        network = 3 if version >= _NETWORK_SINCE else 0  # bind and connect, of TCP
        scopes = 3 if version >= _SCOPES_SINCE else 0  # abstract Unix sockets and signals
        attributes = struct.pack("=QQQ", handled, network, scopes)[: 24 if scopes else 16 if network else 8]
        rules = _called(_libc().syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0), "Landlock")
        try:
            for path, rights in _rights(access):
                _allow(rules, path, rights & handled)
            _called(_libc().syscall(_LANDLOCK_RESTRICT, rules, 0), "Landlock")
        finally:
            os.close(rules)
    if has_seccomp():
        column, processor = _PROCESSORS[platform.machine()]
        refused = _REFUSED if access.programs else _REFUSED | _REFUSED_ALONE
        numbers = [numbers[column] for numbers in refused.values()]
        # Each step is (operation, jump if true, jump if false, value). Offset 4 of seccomp's data is the processor, 0
        # the number of the call, 16 the low half of its first argument.
        steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, processor), (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, 0)]
        if processor == _PROCESSORS["x86_64"][1]:
            # x32 numbers the same calls from 2**30 on, which would bypass the list.
            steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
        for number in numbers:
            if number is not None:
                steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
        # prlimit is allowed on process 0 alone, which means the caller.
        steps += [(_EQUAL, 0, 3, _PRLIMIT[column]), (_LOAD, 0, 0, 16), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _REFUSE)]
        steps.append((_RETURN, 0, 0, _ALLOW))
        program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
        header = struct.pack("@HP", len(steps), ctypes.addressof(program))
        _called(_libc().prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, header, 0, 0), "seccomp")


def missing_parts() -> list[str]:
    """Return what confined processes could still do, because this kernel has no means against it."""
    if sys.platform != "linux":
        return ["read and write the files of the server's user, and open connections (only Linux confines them)"]
    missing = []
    version = landlock_version()
    if not version:
        missing.append("read and write the files of the server's user (Landlock, kernel 5.13, switched on)")
    if not has_seccomp():
        missing.append("open connections and inspect other processes (seccomp on x86_64 or aarch64)")
    if version < _SCOPES_SINCE:  # matters with `programs`: without, seccomp refuses kill
        missing.append("signal other processes (Landlock version 6, kernel 6.12)")
    return missing


@functools.cache
def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface, 0 without it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def has_seccomp() -> bool:
    """Return whether the kernel filters system calls and their numbers on this processor are known."""
    return Path("/proc/sys/kernel/seccomp").is_dir() and platform.machine() in _PROCESSORS and sys.maxsize > 2**32


def _rights(access: Access) -> Iterator[tuple[Path, int]]:
    run = _EXECUTE if access.programs else 0
    # The folders of Python and its packages, without the folder of the installation's own files.
    prefixes = {Path(prefix) for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)}
    python_paths = {prefix / name for prefix in prefixes for name in ("bin", "lib", "lib64", "pyvenv.cfg")}
    searched = {Path(entry) for entry in sys.path if entry}
    loaded = [module for name, module in sys.modules.items() if "." not in name]
    packages = {Path(folder).resolve() for module in loaded for folder in getattr(module, "__path__", ())}
    installed = {_PACKAGE} | {path for path in packages if path.parent == _PACKAGE.parent}
    # A checkout has its data beside the package, an installed package has other packages there (`pip install --user`).
    hidden = set(_PACKAGE.parents[0 if IS_CHECKOUT else 1 :])
    environment = python_paths | installed | {path for path in searched if path.resolve() not in hidden}
    for path in (*environment, *map(Path, _SYSTEM)):
        yield path, _READ | run
    for path in map(Path, os.get_exec_path() if access.programs else ()):
        yield path, _READ | _EXECUTE
    yield Path(os.devnull), _READ | _WRITE_FILE | _TRUNCATE
    for path in access.readable:
        yield path, _READ
    for path in access.writable:
        yield path, _READ | _CHANGE


def _allow(rules: int, path: Path, rights: int) -> None:
    """Add a rule for the file or folder at `path`, if it exists."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights &= ~0 if path.is_dir() else _OF_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _called(_libc().syscall(_LANDLOCK_ADD, rules, _RULE_PATH, rule, 0), f"Landlock for {path}")
    finally:
        os.close(descriptor)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _called(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"This process cannot be confined ({what}): {os.strerror(number)}")
    return result
