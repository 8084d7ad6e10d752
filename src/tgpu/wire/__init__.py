"""The versioned shapes of the public API. Imports nothing of ours."""
