"""Looks at a case: each changes one thing, or compares one thing, and says what must then hold."""
