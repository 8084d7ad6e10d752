"""The paths of REST, by what they are about."""
