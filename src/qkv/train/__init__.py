"""Training: what to learn (tasks), how to step (optim), what to keep (checkpoint), and the loop that is a page long."""
