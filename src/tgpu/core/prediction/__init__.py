"""How long jobs will run and how many GPUs a model needs, told from the past."""
