"""Values as users write and read them. Imports nothing of ours."""
