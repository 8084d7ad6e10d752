"""Pure functions from wire models to lines of cells. Nothing here prints or asks for the time."""
