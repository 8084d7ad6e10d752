"""HTTP: the tick-driven paths at the root, everything else under /api/v1."""
