"""What is asked of each answer, and which wrong answers are known by name."""
