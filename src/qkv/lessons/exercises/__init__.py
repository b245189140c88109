"""What people get to fill in, here with the holes filled. Each file stands alone: it is copied out of the package."""
