"""The versioned models of the public API. Imports nothing of ours."""
