"""Run a Python program as on a kernel without seccomp filters and Landlock: `old_kernel.py [-m] PROGRAM …`.

A seccomp filter of its own refuses the calls, for this process and all that it starts.
"""

import ctypes
import errno
import os
import struct
import sys

from postroom.documents.sandbox import confinement

LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EINVAL
PRCTL = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
LANDLOCK = (444, 445, 446)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38


def build_filter():
    instructions = [(LOAD, 0, 0, 0)]
    for number in (SECCOMP, *LANDLOCK):
        instructions += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    instructions += [
        (JUMP_IF_EQUAL, 0, 3, PRCTL),
        (LOAD, 0, 0, 16),
        (JUMP_IF_EQUAL, 0, 1, PR_SET_SECCOMP),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *each) for each in instructions)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    assert confinement.restrict_system_calls(build_filter())
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
