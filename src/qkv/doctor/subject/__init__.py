"""Something of the user's that can be run: how to build it, call it, hand it masks and watch it."""
