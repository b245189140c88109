"""The Transformer: config, layers, model, generation. Read in that order."""
