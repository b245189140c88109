"""Restrict the process that runs the user's code with what the Linux kernel offers: Landlock and a seccomp filter.

Both hold for the rest of the process's life, for C code too, and no code can lift them:

- Landlock: files are written, created, renamed, truncated and removed in one scratch folder only. TCP needs Linux 6.7,
  signals and abstract sockets 6.12; the filter refuses these on older kernels as well.
- The filter refuses system calls that start processes, reach other processes, open sockets or change the system. They fail
  with EPERM.

Reading files stays allowed. Other systems, and kernels without both, have only the audit hook (audit.py).
"""

import ctypes
import errno
import os
import signal
import struct
import sys

# From linux/landlock.h: access rights to files by the version of Landlock that added them.
WRITE_FILE, REFER, TRUNCATE, IOCTL_DEV = 1 << 1, 1 << 13, 1 << 14, 1 << 15
MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
BIND_AND_CONNECT_TCP, ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
O_PATH = 0o10000000

# From linux/prctl.h, linux/seccomp.h, linux/audit.h and asm/unistd.h.
SET_PDEATHSIG, SET_NO_NEW_PRIVS = 1, 38
SET_MODE_FILTER, TSYNC, SPEC_ALLOW = 1, 1, 4  # every thread; no slower processor on kernels before 5.16
MACHINES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}  # AUDIT_ARCH, column below, seccomp(2)
X32 = 0x40000000  # bit of the system calls of another ABI that x86_64 has

# Refused always: name, number on x86_64, number on aarch64.
REFUSED = """
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, setsid 112 157, setpgid 109 154
pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424, ptrace 101 117, kcmp 312 272
process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, process_mrelease 448 448
setpriority 141 140, ioprio_set 251 30, sched_setparam 142 118, sched_setscheduler 144 119, sched_setattr 314 274
migrate_pages 256 238, move_pages 279 239
socket 41 198, connect 42 203, bind 49 200, listen 50 201, sendmsg 46 211, sendmmsg 307 269
truncate 76 45, chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452
chown 92 -, lchown 94 -, fchown 93 55, fchownat 260 54
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, file_setattr 469 469
removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466
utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, unshare 272 97, setns 308 268
fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, move_mount 429 429, open_tree 428 428
mount_setattr 442 442, name_to_handle_at 303 264, open_by_handle_at 304 265, fanotify_init 300 262
bpf 321 280, keyctl 250 219, add_key 248 217, request_key 249 218, perf_event_open 298 241, userfaultfd 323 282
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427
shmget 29 194, shmat 30 196, shmctl 31 195, msgget 68 186, msgctl 71 187, semget 64 190, semctl 66 191
mq_open 240 180, mq_unlink 241 181
kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106
reboot 169 142, swapon 167 224, swapoff 168 225, sethostname 170 161, setdomainname 171 162, acct 163 89
quotactl 179 60, quotactl_fd 443 443, settimeofday 164 170, clock_settime 227 112, adjtimex 159 171
clock_adjtime 305 266, iopl 172 -, ioperm 173 -, syslog 103 116, vhangup 153 58
"""
ITSELF_ONLY = """
kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240
prlimit64 302 261, sched_setaffinity 203 122
"""
ZERO_IS_ITSELF = ("prlimit64", "sched_setaffinity")  # kill(0) is the whole process group
CLONE, CLONE3, SENDTO, PRCTL, FCNTL, IOCTL = (56, 220), (435, 435), (44, 206), (157, 167), (72, 25), (16, 29)
CLONE_THREAD = 0x10000
SET_OWNER = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: whom a file sends its signals to
IOCTLS = (0x8901, 0x8902, 0x5412, 0x541C)  # FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX: signals, and typing on a terminal

# Instructions of classic BPF, and what a filter returns.
LOAD, EQUAL, ANY_BIT, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
REFUSE = ERROR | errno.EPERM


def confine(scratch: str) -> bool:
    """Restrict this process for the rest of its life. True if both Landlock and the filter are in force.

    Call it while the process has one thread: Landlock holds for the calling thread and those that it starts.
    """
    machine = MACHINES.get(os.uname().machine) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
    if machine is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    has_landlock = _restrict_files(libc, scratch)
    arch, column, seccomp = machine
    return _install(libc, seccomp, build_filter(arch, column, os.getpid())) and has_landlock


def _restrict_files(libc: ctypes.CDLL, scratch: str) -> bool:
    """Whether Landlock allows changes in the scratch folder only from now on."""
    version = _syscall(libc, CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = WRITE_FILE | MAKE_AND_REMOVE
    rights |= (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0) | (IOCTL_DEV if version >= 5 else 0)
    network = BIND_AND_CONNECT_TCP if version >= 4 else 0
    scopes = ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    attributes = struct.pack("=QQQ", rights, network, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _syscall(libc, CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        file_rights = rights & (WRITE_FILE | TRUNCATE | IOCTL_DEV)
        for path, allowed in ((scratch, rights), (os.devnull, file_rights)):
            fd = os.open(path, O_PATH | os.O_CLOEXEC)
            added = _syscall(libc, ADD_RULE, ruleset, 1, struct.pack("=Qi", allowed, fd), 0)
            os.close(fd)
            if added:
                return False
        return _syscall(libc, RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def build_filter(arch: int, column: int, pid: int) -> bytes:
    """The program that decides on each system call, for a process with this pid.

    It reads `struct seccomp_data`: the number at byte 0, the architecture at 4, the low half of argument i at 16 + 8i.
    """
    code = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, arch), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    code += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE)]

    def case(number: int, argument: int, test: int, values: tuple[int, ...], hit: int, other: int) -> None:
        """Return `hit` if the argument passes the test with one of the values, else `other`."""
        n = len(values)
        code.extend([(EQUAL, 0, n + 3, number), (LOAD, 0, 0, 16 + 8 * argument)])
        code.extend((test, n - i, 0, value) for i, value in enumerate(values))
        code.extend([(RETURN, 0, 0, other), (RETURN, 0, 0, hit)])

    for _, number in _numbers(REFUSED, column):
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    for name, number in _numbers(ITSELF_ONLY, column):
        case(number, 0, EQUAL, (pid, 0) if name in ZERO_IS_ITSELF else (pid,), ALLOW, REFUSE)
    case(CLONE[column], 0, ANY_BIT, (CLONE_THREAD,), ALLOW, REFUSE)
    # Its flags are behind a pointer; where it is missing, the C library uses clone.
    code += [(EQUAL, 0, 1, CLONE3[column]), (RETURN, 0, 0, ERROR | errno.ENOSYS)]
    case(SENDTO[column], 5, EQUAL, (0,), ALLOW, REFUSE)  # only to the other end of a socketpair: no address
    case(PRCTL[column], 0, EQUAL, (SET_PDEATHSIG,), REFUSE, ALLOW)
    case(FCNTL[column], 1, EQUAL, SET_OWNER, REFUSE, ALLOW)
    case(IOCTL[column], 1, EQUAL, IOCTLS, REFUSE, ALLOW)
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _numbers(table: str, column: int) -> list[tuple[str, int]]:
    rows = [row.split() for row in table.strip().replace("\n", ",").split(",")]
    return [(row[0], int(row[1 + column])) for row in rows if row[1 + column] != "-"]


def _install(libc: ctypes.CDLL, seccomp: int, code: bytes) -> bool:
    """Whether the filter is in force, in every thread."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    return _syscall(libc, seccomp, SET_MODE_FILTER, TSYNC | SPEC_ALLOW, program) == 0


def _syscall(libc: ctypes.CDLL, number: int, *arguments: int | bytes | None) -> int:
    values = [ctypes.c_char_p(a) if isinstance(a, bytes | None) else ctypes.c_long(a) for a in arguments]
    return int(libc.syscall(ctypes.c_long(number), *values))
