"""Looking into attention: what was recorded, kept as q, k and v, never as the n×n matrix."""
