"""All that the scheduler knows, changed only by `apply(event)`."""
