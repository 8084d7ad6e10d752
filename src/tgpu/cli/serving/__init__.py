"""Commands for long-running processes: the service, agents, gateways, the systemd unit."""
