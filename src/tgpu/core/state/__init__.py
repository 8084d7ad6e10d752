"""The state of the scheduler, changed only by `apply(event)`."""
