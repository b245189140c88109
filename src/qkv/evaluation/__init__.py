"""Evaluation: the loss of a text, BLEU and chrF of translations, the accuracy of a classifier.

Read in this order: `token_losses`, `text_metrics`, `classification`.
"""
