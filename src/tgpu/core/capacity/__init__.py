"""Used and free capacity: the ledger, and indexes of nodes for fast searches."""
