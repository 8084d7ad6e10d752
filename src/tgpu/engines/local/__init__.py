"""The local engine: a supervisor process that starts, watches and ends jobs on this machine.

Nothing is imported here, because the supervisor and its runners must stay small.
"""
