"""The real zygote, whose children make the system calls in their file instead of reading it."""

import ctypes

import msgspec

from postroom.documents.sandbox import child_tasks, zygote

system = ctypes.CDLL(None, use_errno=True)
system.syscall.restype = ctypes.c_long


def make_system_calls(content, _request, _limits):
    """Return the error number of each call; 0 if it succeeded."""
    scratch = ctypes.create_string_buffer(4096)
    ctypes.memmove(scratch, b"/tmp\0", 5)
    places = {"path": ctypes.addressof(scratch), "buffer": ctypes.addressof(scratch) + 1024}
    results = []
    for number, *arguments in msgspec.json.decode(content):
        ctypes.set_errno(0)
        values = [ctypes.c_ulong(places.get(each, each)) for each in arguments]
        results.append(ctypes.get_errno() if system.syscall(number, *values) == -1 else 0)
    return msgspec.json.encode(results)


if __name__ == "__main__":
    child_tasks.TASKS["image"] = make_system_calls
    zygote.main()
