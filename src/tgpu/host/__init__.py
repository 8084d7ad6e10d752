"""What the kernel of this machine tells of its processes and disks, for commands that work on it.

The local engine's jobs run here, so a shell in one of them, or a look at what is wrong, asks here.
"""
