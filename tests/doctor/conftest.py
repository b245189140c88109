"""The files of the corpus are code to be examined, never tests to be collected."""

collect_ignore_glob = ["corpora/*"]
