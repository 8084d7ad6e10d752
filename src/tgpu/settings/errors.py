"""Errors in the settings."""

from collections.abc import Sequence


class SettingsError(ValueError):
    """The settings cannot be used; each problem says where, what and the remedy."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
