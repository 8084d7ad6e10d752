"""What is left of starting over, for `tgpu doctor`, which works without a service."""

from tgpu.engines.local.leftovers import Kind, Leftover, find_leftovers, mend

__all__ = ["Kind", "Leftover", "find_leftovers", "mend"]
