"""The system calls that sandboxed processes may make, as seccomp filters (classic BPF programs).

Allow-lists: every other call fails with EPERM, also calls of future kernels. A call through another
architecture's entry point kills the process. `confinement` installs the filters.
"""

import errno
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

# Instructions: load a 32-bit word of the call's description; jump if equal, or if bits are set; return.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_INSTRUCTION: Final = struct.Struct("<HBBI")
# Offsets in `struct seccomp_data`.
_NUMBER_OFFSET: Final = 0
_ARCHITECTURE_OFFSET: Final = 4
_FIRST_ARGUMENT_OFFSET: Final = 16
# Actions.
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_KILL_PROCESS: Final = 0x80000000

_PROT_EXEC: Final = 4
# New namespaces, and memory shared with the caller: no threads.
_CLONE_FORBIDDEN: Final = 0x7E020100


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit_number: int
    column: int  # in `_NUMBERS`


_ARCHITECTURES: Final[Mapping[str, _Architecture]] = {
    "x86_64": _Architecture(0xC000003E, 0),
    "aarch64": _Architecture(0xC00000B7, 1),
}

# The numbers on x86_64 and aarch64; -1 where an architecture does not have the call.
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "dup2": (33, -1),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "clone": (56, 220),
    "exit": (60, 93),
    "wait4": (61, 260),
    "kill": (62, 129),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "getppid": (110, 173),
    "sigaltstack": (131, 132),
    "prctl": (157, 167),
    "gettid": (186, 178),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "epoll_wait": (232, -1),
    "epoll_ctl": (233, 21),
    "set_robust_list": (273, 99),
    "epoll_pwait": (281, 22),
    "dup3": (292, 24),
    "prlimit64": (302, 261),
    "seccomp": (317, 277),
    "getrandom": (318, 278),
    "rseq": (334, 293),
}
# Memory, time, the process's own signals, and the files that it already holds.
_COMMON: Final = frozenset(
    {
        "read",
        "write",
        "close",
        "fstat",
        "lseek",
        "munmap",
        "brk",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "pread64",
        "sched_yield",
        "mremap",
        "madvise",
        "getpid",
        "exit",
        "gettimeofday",
        "getrusage",
        "sigaltstack",
        "gettid",
        "futex",
        "restart_syscall",
        "clock_gettime",
        "clock_nanosleep",
        "exit_group",
        "getrandom",
    }
)
_MESSAGES: Final = frozenset({"sendto", "recvfrom", "recvmsg"})
_FORKING: Final = frozenset(
    {
        "dup2",
        "dup3",
        "wait4",
        "getppid",
        "prctl",
        "epoll_wait",
        "epoll_pwait",
        "epoll_ctl",
        "set_robust_list",
        "prlimit64",
        "seccomp",
        "rseq",
    }
)
CHILD_CALLS: Final = _COMMON
OCR_CALLS: Final = _COMMON | _MESSAGES
ZYGOTE_CALLS: Final = _COMMON | _MESSAGES | _FORKING


@dataclass(frozen=True, slots=True)
class _BitsForbidden:
    """A call that is allowed unless an argument has one of these bits."""

    call: str
    argument: int
    bits: int


_NO_NEW_CODE: Final = (_BitsForbidden("mmap", 2, _PROT_EXEC), _BitsForbidden("mprotect", 2, _PROT_EXEC))
_NO_THREADS: Final = (_BitsForbidden("clone", 0, _CLONE_FORBIDDEN),)


def build_child_filter() -> bytes | None:
    """Build the filter for a process that reads one file; None for an unknown architecture."""
    return _build_filter(CHILD_CALLS, _NO_NEW_CODE)


def build_ocr_filter() -> bytes | None:
    """Build the filter for a process that receives bitmaps from the worker."""
    return _build_filter(OCR_CALLS, _NO_NEW_CODE)


def build_zygote_filter() -> bytes | None:
    """Build the filter for the process that forks children, limits them and can kill them."""
    return _build_filter(ZYGOTE_CALLS | {"kill"}, (*_NO_NEW_CODE, *_NO_THREADS))


def _build_filter(calls: Iterable[str], conditional: Iterable[_BitsForbidden]) -> bytes | None:
    architecture = _ARCHITECTURES.get(os.uname().machine)
    if architecture is None:
        return None
    return b"".join(_assemble(architecture, calls, conditional))


def _assemble(
    architecture: _Architecture, calls: Iterable[str], conditional: Iterable[_BitsForbidden]
) -> Iterator[bytes]:
    yield _INSTRUCTION.pack(_LOAD, 0, 0, _ARCHITECTURE_OFFSET)
    yield _INSTRUCTION.pack(_JUMP_IF_EQUAL, 1, 0, architecture.audit_number)
    yield _INSTRUCTION.pack(_RETURN, 0, 0, _KILL_PROCESS)
    yield _INSTRUCTION.pack(_LOAD, 0, 0, _NUMBER_OFFSET)
    for number in sorted(_NUMBERS[call][architecture.column] for call in calls):
        if number >= 0:
            yield _INSTRUCTION.pack(_JUMP_IF_EQUAL, 0, 1, number)
            yield _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW)
    for rule in conditional:
        yield _INSTRUCTION.pack(_JUMP_IF_EQUAL, 0, 4, _NUMBERS[rule.call][architecture.column])
        yield _INSTRUCTION.pack(_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET + 8 * rule.argument)
        yield _INSTRUCTION.pack(_JUMP_IF_ANY_BIT, 0, 1, rule.bits)
        yield _INSTRUCTION.pack(_RETURN, 0, 0, _REFUSE)
        yield _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW)
    yield _INSTRUCTION.pack(_RETURN, 0, 0, _REFUSE)
