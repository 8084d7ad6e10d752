"""`tgpu db`: commands about the database itself."""
