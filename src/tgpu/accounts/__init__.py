"""The users that jobs can run as: a port, and the lists of the machine that this runs on."""
