"""Commands that run something for long: the service, agents, gateways, the systemd unit."""
