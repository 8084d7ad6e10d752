"""Findings of `tgpu doctor` and `tgpu test`."""

from dataclasses import dataclass
from enum import StrEnum


class FindingLevel(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: FindingLevel
    finding: str
    remedy: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "level": self.level.value,
            "finding": self.finding,
            "remedy": self.remedy,
        }
