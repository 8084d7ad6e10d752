"""What a stretch of time was like, out of the journal: numbers, a page, pictures."""
