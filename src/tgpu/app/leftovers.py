"""Leftovers of deleted data directories, for `tgpu doctor`, which works without a service."""

from tgpu.engines.local.leftovers import Leftover, LeftoverKind, find_leftovers, mend

__all__ = ["Leftover", "LeftoverKind", "find_leftovers", "mend"]
