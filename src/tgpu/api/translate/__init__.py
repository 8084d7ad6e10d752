"""Between the wire and the service: requests into commands, what is stored into answers."""
