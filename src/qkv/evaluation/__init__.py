"""How good a model is: the loss of a text, BLEU and chrF of translations, the accuracy of labels.

Read in this order: `token_losses`, `text_metrics`, `classification`.
"""
