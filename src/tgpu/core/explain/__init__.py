"""Why a job waits and what would start it, found by the scheduling cycle itself."""
