"""What commands in the sandbox may not ask of the kernel, as the filter program that bubblewrap installs.

Namespaces leave some things open: sockets of families that have none (to the hypervisor, to Bluetooth) and
keyrings. io_uring makes sockets past any filter. All else is the namespaces' to keep.
"""

import platform
import struct
from typing import NamedTuple

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_FAMILIES = (_UNIX, _INET, _INET6, _NETLINK)  # the last tells a program its addresses

_ENOSYS, _EAFNOSUPPORT = 38, 97
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of classic BPF
_NR, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # where they stand in what the filter is given; low half first


class _Calls(NamedTuple):
    """Numbers of system calls on one kind of processor, and from which number on there is no known one."""

    arch: int
    sockets: tuple[int, ...]  # socket, socketpair
    missing: tuple[int, ...]  # add_key, request_key, keyctl, io_uring_setup, socketcall
    end: int = 1 << 30


_X86_64 = _Calls(0xC000003E, (41, 53), (248, 249, 250, 425), end=0x40000000)  # x32 has numbers of its own
_I386 = _Calls(0x40000003, (359, 360), (286, 287, 288, 425, 102))
_AARCH64 = _Calls(0xC00000B7, (198, 199), (217, 218, 219, 425))
_ARM = _Calls(0x40000028, (281, 288), (309, 310, 311, 425))
_RISCV64 = _Calls(0xC00000F3, (198, 199), (217, 218, 219, 425))

# A 64-bit kernel runs 32-bit programs too.
_KINDS = {"x86_64": (_X86_64, _I386), "aarch64": (_AARCH64, _ARM), "riscv64": (_RISCV64,)}


def filter_program(machine: str = "") -> bytes:
    """Return the filter for this machine; empty where its numbers are not known here."""
    kinds = _KINDS.get(machine or platform.machine(), ())
    if not kinds:
        return b""
    program = [(_LOAD, 0, 0, _ARCH)]
    for kind in kinds:
        checks = _checks(kind)
        program += [(_EQUAL, 0, len(checks), kind.arch), *checks]
    program.append((_RETURN, 0, 0, _ERRNO | _ENOSYS))
    return b"".join(struct.pack("=HBBI", *line) for line in program)


def _checks(kind: _Calls) -> list[tuple[int, int, int, int]]:
    """Return lines of (code, lines to skip if so, if not, operand) that decide about a call."""
    families = [
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *((_EQUAL, len(_FAMILIES) - i, 0, family) for i, family in enumerate(_FAMILIES)),
        (_RETURN, 0, 0, _ERRNO | _EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    numbers = [
        *((_AT_LEAST, kind.end), *((_EQUAL, number) for number in kind.missing)),
        *((_EQUAL, number) for number in kind.sockets),
    ]
    refusing = 1 + len(kind.missing)
    # Behind the numbers: allow, refuse, and then what decides about families.
    allow, refuse = len(numbers), len(numbers) + 1
    lines = []
    for i, (code, number) in enumerate(numbers):
        target = refuse if i < refusing else refuse + 1
        lines.append((code, target - i - 1, 0, number))
    assert allow == len(lines)  # noqa: S101  # where the last number falls through to
    return [
        (_LOAD, 0, 0, _NR),
        *lines,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        *families,
    ]
