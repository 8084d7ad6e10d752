"""Commands on jobs there are: list, show, why, logs, wait, cancel, edit, pause."""
