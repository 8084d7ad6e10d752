"""tgpu, the GPU scheduler: runs GPU jobs on one box, for one user or for many tenants."""

__version__ = "0.1.0"
