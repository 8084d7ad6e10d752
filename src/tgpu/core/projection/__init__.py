"""The queue played forward: when jobs will start, and how sure that is."""
