"""The journal outside of its store: as a file, as a state of the past, as a trace to run again."""
