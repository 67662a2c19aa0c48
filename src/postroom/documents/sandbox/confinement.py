"""Confines the processes that handle untrusted files, with what the kernel of this machine offers.

A process first loads everything that it needs and is confined then: it gets its own user if it runs as root,
loses access to files, network and other processes (Landlock), and may make only the system calls that it
needs (seccomp, see `system_calls`). `file_limits` are about amounts; this is about abilities.
"""

import contextlib
import ctypes
import os
import signal
import struct
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# By the conventions of distributions this number belongs to no account. The usual account without rights,
# 65534, has processes on many systems: the embedded database may be among them.
UNPRIVILEGED_ID: Final = 61_000
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_INSTRUCTION_BYTES: Final = 8
# The same numbers on every architecture.
_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_RESTRICT_SELF: Final = 446
_LANDLOCK_VERSION_FLAG: Final = 1
# By the Landlock version that introduced them: file access, TCP, signals and abstract sockets.
_LANDLOCK_FILE_BITS: Final = {1: 13, 2: 14, 3: 15, 5: 16}
_LANDLOCK_TCP_VERSION: Final = 4
_LANDLOCK_SCOPES_VERSION: Final = 6

_system: Final = ctypes.CDLL(None, use_errno=True)
# These take long arguments, and a variadic C function converts none.
_system.syscall.restype = ctypes.c_long


class Measure(StrEnum):
    """A measure of confinement, as `postroom doctor` prints it."""

    NO_NEW_PRIVILEGES = "no new privileges"
    HIDDEN_MEMORY = "hidden memory"
    OWN_USER = "own user"
    LANDLOCK = "Landlock"
    SECCOMP = "seccomp"


@dataclass(frozen=True, slots=True)
class Confinement:
    """How a process is confined: the measures that the kernel accepted, and their details."""

    measures: tuple[Measure, ...]
    uid: int
    landlock_version: int  # 0 without Landlock


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine_process(parent: int, system_calls: bytes | None) -> Confinement:
    """Confine this process for good and return how the kernel does it.

    It ends with its parent even so: a change of user resets that, and it is set again.
    """
    in_force = {
        Measure.OWN_USER: _give_up_root(),
        Measure.NO_NEW_PRIVILEGES: _forbid_new_privileges(),
        Measure.HIDDEN_MEMORY: hide_memory(),
    }
    uid, landlock_version = os.getuid(), _forbid_access()
    exit_with_parent(parent)
    in_force[Measure.LANDLOCK] = landlock_version > 0
    in_force[Measure.SECCOMP] = restrict_system_calls(system_calls)
    measures = tuple(measure for measure in Measure if in_force[measure])
    return Confinement(measures, uid, landlock_version)


def exit_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that happens."""
    _system.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # the parent ended before the call above


def hide_memory() -> bool:
    """Forbid other processes of this user to trace this process or to read its memory. No core dumps."""
    return _system.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


def restrict_system_calls(program: bytes | None) -> bool:
    """Install a seccomp filter; it also applies to processes forked later."""
    if program is None:
        return False
    loaded = _Program(len(program) // _INSTRUCTION_BYTES, program)
    return _system.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0) == 0


def _forbid_new_privileges() -> bool:
    """No program that this process starts gets more rights than it has. Required for the other measures."""
    return _system.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def _give_up_root() -> bool:
    """Change to a user without rights, if this process may: it runs as root."""
    with contextlib.suppress(OSError):
        os.setgroups([])
        os.setresgid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        os.setresuid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        return True
    return False


def _forbid_access() -> int:
    """Forbid to open or change any file, to use TCP, and to signal processes other than own children.

    Returns the version of Landlock that is in force; 0 without one.
    """
    version = _system.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION_FLAG)
    if version < 1:
        return 0
    bits = max(count for since, count in _LANDLOCK_FILE_BITS.items() if since <= version)
    handled = struct.pack("<Q", (1 << bits) - 1)
    if version >= _LANDLOCK_TCP_VERSION:
        handled += struct.pack("<Q", 0b11)
    if version >= _LANDLOCK_SCOPES_VERSION:
        handled += struct.pack("<Q", 0b11)
    # A ruleset without rules: nothing of what it handles is allowed.
    ruleset = _system.syscall(_LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return 0
    try:
        return version if _system.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)
