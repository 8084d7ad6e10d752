"""Commands that look back: replay, report, what-if, export, accuracy."""
