"""The user's file: its text and tree, any of its names as an object, and what it says before anything runs."""
