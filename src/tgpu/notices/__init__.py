"""Notifications by mail, webhook, Slack or on the desktop."""
