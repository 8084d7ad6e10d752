"""tgpu, the GPU scheduler: runs GPU jobs on one box, for many tenants, or on a cluster engine."""

__version__ = "0.1.0"
