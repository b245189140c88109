"""Named models and data sets: listed in a catalogue, fetched when asked for, verified by hash.

Read in this order: `catalogue`, `store`, `file_hashes`, `packages`, `registries`, `transfer`, `hub`.
"""
