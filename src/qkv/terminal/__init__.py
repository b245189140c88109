"""Output to a terminal: escaping of control characters, columns, and progress bars.

Read in this order: `screen`, `text_grid`, `progress`.
"""
