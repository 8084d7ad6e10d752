"""The simulator: the service's own cycle, driven by a trace instead of a clock."""
