"""Tells people what happened: by mail, webhook, Slack or on the desktop."""
