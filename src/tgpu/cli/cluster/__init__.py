"""Commands about GPUs, nodes, reservations and the state of the scheduler."""
