"""Why the data directory cannot be written, as a sentence with what to do."""

import errno
import os
from pathlib import Path
from typing import Final

from tgpu.engines.ballast import Room, give_up, room_at
from tgpu.service.upkeep.disk import free_of
from tgpu.text.system_words import system_words

_LITTLE: Final = 256 * 1024  # less than this is too little to open a database with
_PLACE: Final = "the file system at "
_ELSEWHERE: Final = "or choose another directory with --data-dir"
_CAUSES: Final = {
    errno.ENOTDIR: "a file is in its way: move it, ",
    errno.EEXIST: "a file is in its way: move it, ",
    errno.ENOENT: "it no longer exists: create it, or mount its disk, ",
    errno.EACCES: "you may not: check the owner and permissions of the directories above it, ",
    errno.EPERM: "you may not: check the owner and permissions of the directories above it, ",
}


def why_unwritable(path: Path, error: OSError) -> str:
    """What is wrong with the place, and what to do."""
    place = _nearest(path)
    room = _room(place)
    mount = _mount_of(place)
    if error.errno == errno.EDQUOT:
        return (
            f"your disk quota on {mount} is used up: delete files of yours there, ask for more, "
            f"{_ELSEWHERE}"
        )
    if error.errno == errno.EROFS or (room is not None and room.read_only):
        return (
            f"{_PLACE}{mount} is read-only: mount it for writing again (`dmesg` may say "
            f"why it is not), {_ELSEWHERE}"
        )
    if error.errno == errno.ENOSPC:
        return no_room(path)
    cause = _CAUSES.get(error.errno or 0, f"{system_words(error)}: fix that, ")
    return f"{cause}{_ELSEWHERE}"


def no_room(path: Path) -> str:
    place = _nearest(path)
    room, mount = _room(place), _mount_of(place)
    left = "" if room is None else f" ({free_of(room)})"
    what = (
        "there are no inodes left" if room is not None and room.free_inodes == 0 else "it is full"
    )
    return (
        f"{what} on {_PLACE}{mount}{left}: delete something there (`du -xh {mount} |"
        f" sort -h | tail` shows what is large; logs of jobs are in {path}/engine/jobs), "
        f"{_ELSEWHERE}"
    )


def with_disk(sentence: str, path: Path) -> str:
    """A sentence about a failed start, with what the disk has to do with it, if anything."""
    room = _room(_nearest(path))
    if room is None or _PLACE in sentence:  # it says so already
        return sentence
    if room.read_only:
        return f"{sentence}; {why_unwritable(path, OSError(errno.EROFS, ''))}"
    if room.free < _LITTLE or room.free_inodes == 0:
        return f"{sentence}; {no_room(path)}"
    return sentence


def make_start_possible(data_dir: Path) -> None:
    """On a full disk the ballast goes before anything is tried: sockets need room as well."""
    room = _room(data_dir)
    if room is not None and (room.free < _LITTLE or room.free_inodes == 0):
        give_up(str(data_dir))


def _nearest(path: Path) -> Path:
    """The path, or what there is of it."""
    absolute = path.absolute()
    return next(place for place in (absolute, *absolute.parents) if os.path.lexists(place))


def _room(place: Path) -> Room | None:
    try:
        return room_at(str(place))
    except OSError:
        return None


def _mount_of(place: Path) -> Path:
    real = Path(os.path.realpath(place))
    return next((above for above in (real, *real.parents) if os.path.ismount(above)), real)
