"""Commands on existing jobs: list, show, why, logs, wait, cancel, edit, pause."""
