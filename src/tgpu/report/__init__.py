"""Reports of a period from the journal: numbers, a page, pictures."""
