"""The command `tgpu`: a thin shell over the client. Importing a command imports no library."""
