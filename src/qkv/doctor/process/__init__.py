"""The process that runs the user's code, and the limits on it."""
