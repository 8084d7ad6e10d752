"""A hint for a whole command in quotes, which the system takes for the name of one program."""

import os
import shlex
import shutil

from tgpu.cli.failures import bad_input


def refuse_one_word(word: str, typed: str = "tgpu submit") -> None:
    """Raises bad input where it is surely not meant as one word.

    A program's name may have spaces, and a scheduler elsewhere may have one that is not here: so
    only what begins with a program that is here, and is none itself, is refused at once.
    """
    try:
        words = shlex.split(word)
    except ValueError:
        return
    if len(words) < 2 or os.path.exists(word):
        return
    if shutil.which(words[0]) is None and not os.path.isfile(words[0]):
        return
    raise bad_input(
        f"{word!r} is one word because of its quotes, and there is no program with that name",
        f"write: {typed} -- {shlex.join(words)}\n  or, for pipes and $: {typed} -- sh -c "
        f"{shlex.quote(word)}",
    )
