"""Named models and data sets: listed in a catalogue, fetched on request, verified by hash.

Read in this order: `catalogue`, `store`, `file_hashes`, `packages`, `registries`, `transfer`, `hub`.
"""
