"""Attention in NumPy with every mistake that changes numbers, and the search for the form that gives the user's."""
