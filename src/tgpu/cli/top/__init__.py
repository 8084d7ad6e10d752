"""`tgpu top`: the scheduler on one screen that stays open."""
