"""The stages of the cycle: mechanism without policy."""
