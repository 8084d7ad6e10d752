"""Errors of the operating system in our words, lower-case, to follow what was tried."""

import errno
from typing import Final

_WORDS: Final = {
    errno.ENOENT: "there is no such file or folder",
    errno.EACCES: "permission denied: check its owner and mode",
    errno.EPERM: "permission denied: check its owner and mode",
    errno.EEXIST: "it exists already",
    errno.ENOTDIR: "part of its path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EIO: "the disk cannot be read or written",
    errno.ELOOP: "its links form a loop",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine",
    errno.ENOMEM: "the memory is used up",
    errno.ETXTBSY: "it is being run",
    errno.ENOEXEC: "it is not a program that can be run here",
    errno.E2BIG: "the command and its variables are too long",
    errno.EADDRINUSE: "another program listens there",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EAFNOSUPPORT: "this machine has no such kind of address",
    errno.ECONNREFUSED: "nothing listens there",
    errno.ECONNRESET: "it closed the connection",
    errno.EPIPE: "it closed the connection",
    errno.ETIMEDOUT: "no answer in time",
    errno.EHOSTUNREACH: "that machine cannot be reached",
    errno.ENETUNREACH: "that network cannot be reached",
}


def system_words(error: OSError) -> str:
    """What went wrong. The system's own words only where nobody has thought of it yet."""
    number = error.errno
    if number is not None and number in _WORDS:
        return _WORDS[number]
    return (error.strerror or "the system refused it").lower()
