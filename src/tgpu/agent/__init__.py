"""What `tgpu agent` runs on a GPU machine: it reports to a service, and decides nothing."""
