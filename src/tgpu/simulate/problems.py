"""Errors in a file, with line and column."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class InputProblem:
    line: int
    column: str  # empty: the line as a whole
    text: str  # what is there and what would be right
    kind: str  # in a word or two, to count by

    def sentence(self) -> str:
        where = f"line {self.line}, {self.column}" if self.column else f"line {self.line}"
        return f"{where}: {self.text}"


class BadInput(ValueError):
    """A trace or a cluster that cannot be used as it is."""

    def __init__(
        self, file: str, problems: Sequence[InputProblem], *, may_skip: bool = False
    ) -> None:
        self.file = file
        self.problems = tuple(problems)
        self.may_skip = may_skip  # leaving the lines out would help
        super().__init__(self._text())

    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(problem.kind for problem in self.problems).items()))

    def _text(self) -> str:
        shown = [problem.sentence() for problem in self.problems[:_SHOWN]]
        more = len(self.problems) - len(shown)
        if more > 0:
            shown.append(f"and {more:,} more")
        return f"{self.file}: " + "; ".join(shown)
