"""Commands that need no service: simulations, packing, predictors measured."""
