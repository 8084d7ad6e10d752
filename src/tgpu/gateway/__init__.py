"""Further API processes in front of the one service: a shared cache, event fan-out, rate limits."""
