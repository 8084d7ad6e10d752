"""Commands about GPUs, nodes, reservations and how the whole is doing."""
