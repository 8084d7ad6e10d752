"""Counts in sentences: "1 job", "2 jobs", "0.5 GPU", "0 rows". Nobody else adds an s."""


def plural(count: int | float | str, word: str) -> str:
    """`count` may be text already: "1,000", "0.5"."""
    return f"{count} {word}" if _is_one(count) else f"{count} {_many(word)}"


def _is_one(count: int | float | str) -> bool:
    return str(count) in ("1", "1.0") or str(count).startswith("0.")


def _many(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"
