"""The journal outside its store: as a file, as a past state, as a trace to simulate."""
