"""Values as people write and read them. Imports nothing of ours."""
