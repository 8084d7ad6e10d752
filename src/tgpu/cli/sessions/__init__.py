"""Interactive commands: run, lease, shell, attach."""
