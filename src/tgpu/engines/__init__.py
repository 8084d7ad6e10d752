"""Engines, which run attempts: the local supervisor now, cluster engines later."""
